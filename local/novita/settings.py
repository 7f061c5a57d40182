"""Every setting of the simulator; what Novita's documentation leaves open is a setting."""

from typing import Literal

from pydantic import Field

from local.novita.wire import Wire

Seconds = float


class Settings(Wire):
    # How long things take. A boot is drawn for each machine when sigma is above 0 (log-normal, this median).
    boot_seconds: Seconds = Field(default=10, ge=0)
    boot_seconds_sigma: float = Field(default=0, ge=0, le=5)
    boot_seed: int = 0
    start_seconds: Seconds = Field(default=5, ge=0)
    stop_seconds: Seconds = Field(default=3, ge=0)
    restart_seconds: Seconds = Field(default=5, ge=0)
    remove_seconds: Seconds = Field(default=3, ge=0)
    migrate_seconds: Seconds = Field(default=10, ge=0)
    latency_ms: int = Field(default=0, ge=0)

    # What is seen when.
    list_lag_seconds: Seconds = Field(default=2, ge=0)
    get_lag_seconds: Seconds = Field(default=0, ge=0)
    removed_visible_seconds: Seconds = Field(default=0, ge=0)
    endpoints_after_seconds: Seconds = Field(default=0, ge=0)
    metrics_lag_seconds: Seconds = Field(default=60, ge=0)

    # Who is let in, and how often (0 = no limit).
    rejected_keys: list[str] = Field(default=[])
    accounts: dict[str, str] = Field(default={})  # of keys that belong to another account than all others
    rate_limit_per_minute: int = Field(default=0, ge=0)
    retry_after_on429: bool = False
    balance_enough: bool = True
    balance: int = Field(default=1_000_000, ge=0)  # in 1/10,000 USD, as the billing API tells it
    spend_balance: bool = False  # what machines cost is taken from it, and nothing is sold without
    instance_limit: int = Field(default=0, ge=0)

    # Bills: how late a day is billed, and how wrong; 0 is a bill that says nothing was used.
    bill_lag_seconds: Seconds = Field(default=3600, ge=0)
    bill_factor: float = Field(default=1, ge=0)
    bills_absent: bool = False

    # Images that need a login, matched by how they begin.
    private_images: list[str] = Field(default=["ghcr.io/ostler-private/"])

    # Images that cannot be pulled, by how they begin, with what the registry says of them.
    unpullable_images: dict[str, str] = Field(
        default={"ghcr.io/ostler-demo/unpullable": "manifest unknown: manifest unknown"}
    )

    # How to read what the documentation leaves open.
    status_error_as: Literal["object", "string"] = "object"
    stop_while_failing: bool = True  # a machine whose image cannot be pulled can be stopped
    page_start: Literal[0, 1] = 0
    paging_required: bool = False
    default_page_size: int = Field(default=10, ge=1)
    max_page_size: int = Field(default=0, ge=0)
    price_as: Literal["number", "string"] = "string"
    spot_price_as: Literal["number", "string"] = "string"
    region_names: Literal["plain", "suffixed"] = "suffixed"
    not_found_as: Literal[400, 404] = 400
    total_in_list: bool = True
    endpoint_in_list: bool = False
    spot_in_get: bool = False  # spotStatus and spotReclaimTime, which the list has in any case
    action_bodies: Literal["full", "empty", "none"] = "full"
    auth_save_as: Literal["empty", "json"] = "empty"
    storage_create_as: Literal["object", "string"] = "object"
    mask_auth_passwords: bool = False
    image_auth_id_accepted: bool = True
    timestamps_present: bool = True
    times_told: bool = True  # when a machine was last started and stopped; otherwise "0", as if never
    started_at_means: Literal["billed", "running"] = "billed"
    inventory_state_present: bool = True
    template_times_as: Literal["createdAt", "createTime"] = "createdAt"
    node_as: Literal["array", "object"] = "object"
    spot_status_when_not_spot: str = ""
    blank_billing_mode: bool = False
    kind_required: bool = True
    strict_names: bool = True

    # Where machines are reached: this simulator, or addresses of Novita's form that lead nowhere.
    public_url: str = ""
    real_endpoints: bool = False

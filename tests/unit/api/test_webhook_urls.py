"""A webhook URL that is known to lead inside is refused when it is given, with the other bad fields."""

import pytest

from tests.unit.api.api import Api, create_body
from tests.unit.webhook.test_webhook_guard import HOSTILE_URLS


@pytest.mark.parametrize("url", HOSTILE_URLS.values(), ids=HOSTILE_URLS.keys())
def test_a_hostile_url_is_a_bad_field_at_create_time(api: Api, url: str) -> None:
    before = api.stored()

    answer = api.post(create_body(webhookUrl=url.format(port=8080), gpuNum=0))

    assert (answer.status, answer.code) == (400, "VALIDATION_ERROR")
    assert answer.fields == {"webhookUrl": "INVALID_WEBHOOK_URL", "gpuNum": "INVALID_GPU_NUM"}
    assert api.stored() == before


@pytest.mark.parametrize(
    "url", ["https://hooks.example.com/in", "http://93.184.216.34:8080/", "https://[2606:4700::1]/?x=1"]
)
def test_an_ordinary_public_url_is_none(api: Api, url: str) -> None:
    answer = api.post(create_body(webhookUrl=url, gpuNum=0))

    assert answer.fields == {"gpuNum": "INVALID_GPU_NUM"}

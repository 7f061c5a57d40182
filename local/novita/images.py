"""Whether an image can be had: it exists, and a private one comes with a login that its registry takes."""

from local.novita.errors import ApiError
from local.novita.world import World


def check_image(world: World, image: str, login: str, auth_id: str) -> None:
    settings = world.settings
    if begins(image, settings.missing_images):
        raise ApiError("IMAGE_NOT_FOUND", f"image {image} not found")
    if auth_id and auth_id not in world.auths:
        raise ApiError("RESOURCE_NOT_FOUND", f"repository auth {auth_id} not found")
    if not begins(image, settings.private_images):
        return
    if auth_id and not settings.image_auth_id_accepted:
        raise ApiError("VALIDATOR_PARAM", "imageAuthId: not supported, give imageAuth")
    logins = {f"{auth.username}:{auth.password}" for auth in world.auths.values()}
    if not auth_id and login not in logins:
        raise ApiError("IMAGE_NOT_FOUND", f"image {image} not found or its registry refuses the login")


def begins(image: str, prefixes: list[str]) -> bool:
    return any(image.startswith(prefix) for prefix in prefixes)

"""The CDK's feature flags: a new version's are noticed, and each was decided on."""

import json
import tarfile
from pathlib import Path

import aws_cdk

from infra.feature_flags import FEATURE_FLAGS, OTHERWISE


def test_they_are_those_of_a_new_app_but_for_what_is_said() -> None:
    (package,) = (Path(aws_cdk.__file__).parent / "_jsii").glob("*.tgz")
    with tarfile.open(package) as files:
        recommended = files.extractfile("package/recommended-feature-flags.json")
        assert recommended
        new_app = json.load(recommended)

    assert FEATURE_FLAGS.keys() == new_app.keys()
    assert {name for name in new_app if FEATURE_FLAGS[name] != new_app[name]} == OTHERWISE

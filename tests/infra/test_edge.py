"""The option edge=cloudfront: who asks too often is stopped in front, and nobody comes around it."""

import json

from functions.api.auth import _ORIGIN_HEADER
from infra.edge import ORIGIN_HEADER
from tests.infra.principals import may
from tests.infra.template import Template


def test_nothing_of_it_is_there_unless_it_was_chosen(template: Template, signed: Template) -> None:
    for one in (template, signed):
        assert not one.edge.file.exists()
        assert not one.all("AWS::CloudFront::Distribution")
        assert len(one.all("AWS::SecretsManager::Secret")) == 2
        assert "ORIGIN_SECRET_ID" not in one.functions()["api"]["Environment"]["Variables"]


def test_an_address_that_asks_too_often_is_stopped_before_it_reaches_the_gateway(chosen: Template) -> None:
    rules = chosen.edge.one("AWS::WAFv2::WebACL")
    (rule,) = rules["Rules"]

    assert rules["Scope"] == "CLOUDFRONT"
    assert rule["Statement"]["RateBasedStatement"] == {
        "AggregateKeyType": "IP",
        "Limit": 500,
        "EvaluationWindowSec": 300,
    }
    assert rule["Action"]["Block"]["CustomResponse"]["ResponseCode"] == 429


def test_the_rules_are_in_the_one_region_that_cloudfront_takes_them_from(chosen: Template) -> None:
    manifest = json.loads((chosen.file.parent / "manifest.json").read_text())["artifacts"]
    distribution = chosen.one("AWS::CloudFront::Distribution")["DistributionConfig"]

    assert manifest[chosen.edge.name]["environment"].endswith("/us-east-1")
    assert chosen.edge.name in manifest[chosen.name]["dependencies"], "and deployed first"
    assert distribution["WebACLId"]["Fn::GetStackOutput"] == {
        "StackName": "OstlerEdge-test",
        "OutputName": "WebAclArn",
        "Region": "us-east-1",
    }


def test_cloudfront_shows_the_api_a_secret_that_the_template_does_not_carry(chosen: Template) -> None:
    (origin,) = chosen.one("AWS::CloudFront::Distribution")["DistributionConfig"]["Origins"]
    (header,) = origin["OriginCustomHeaders"]
    reference = chosen.functions()["api"]["Environment"]["Variables"]["ORIGIN_SECRET_ID"]

    assert header["HeaderName"] == ORIGIN_HEADER
    assert ORIGIN_HEADER.lower() == _ORIGIN_HEADER
    assert "{{resolve:secretsmanager:" in json.dumps(header["HeaderValue"])
    assert reference["Ref"] in json.dumps(header["HeaderValue"])
    assert "SecretString" not in chosen.all("AWS::SecretsManager::Secret")[reference["Ref"]]
    assert may(chosen, "api", "secretsmanager:GetSecretValue", resource="EdgeOriginSecret")
    assert not may(chosen, "webhook", "secretsmanager:GetSecretValue", resource="EdgeOriginSecret")


def test_everything_reaches_the_api_as_it_was_sent_and_nothing_is_kept(chosen: Template) -> None:
    config = chosen.one("AWS::CloudFront::Distribution")["DistributionConfig"]
    behavior = config["DefaultCacheBehavior"]

    assert {"POST", "PUT", "PATCH", "DELETE"} < set(behavior["AllowedMethods"])
    assert behavior["ViewerProtocolPolicy"] == "https-only"
    # AWS's own policies, by the ids that it documents: caching disabled; all headers but Host.
    assert behavior["CachePolicyId"] == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
    assert behavior["OriginRequestPolicyId"] == "b689b0a8-53d0-40ab-baf2-68738e2966ac"
    assert config["Origins"][0]["CustomOriginConfig"]["OriginProtocolPolicy"] == "https-only"


def test_callers_are_told_the_address_in_front(chosen: Template) -> None:
    config = chosen.one("AWS::CloudFront::Distribution")["DistributionConfig"]
    outputs = chosen.body["Outputs"]

    assert config["Aliases"] == ["gpu.page.example"]
    assert config["ViewerCertificate"]["MinimumProtocolVersion"] == "TLSv1.2_2021"
    assert outputs["ApiUrl"]["Value"] == "https://gpu.page.example"
    assert "DomainName" in json.dumps(outputs["DomainTarget"]["Value"])

"""What the gateway lets through, and how fast."""

import json

from tests.infra.template import Properties, Template

GUARDED = "ANY /api/{proxy+}"


def routes(template: Template) -> dict[str, Properties]:
    return {route["RouteKey"]: route for route in template.all("AWS::ApiGatewayV2::Route").values()}


def test_everything_reaches_the_api_function(template: Template) -> None:
    integration = template.one("AWS::ApiGatewayV2::Integration")
    function = template.all("AWS::Lambda::Function")[integration["IntegrationUri"]["Fn::GetAtt"][0]]

    assert set(routes(template)) == {GUARDED, "$default"}
    assert function["Handler"] == "functions.api.handler.handler"
    assert integration["PayloadFormatVersion"] == "2.0"


def test_callers_are_throttled(template: Template, chosen: Template) -> None:
    assert template.one("AWS::ApiGatewayV2::Stage")["DefaultRouteSettings"] == {
        "ThrottlingBurstLimit": 100,
        "ThrottlingRateLimit": 50,
    }
    assert chosen.one("AWS::ApiGatewayV2::Stage")["DefaultRouteSettings"] == {
        "ThrottlingBurstLimit": 7,
        "ThrottlingRateLimit": 3,
    }


def test_requests_are_logged_without_headers_and_query(template: Template) -> None:
    logged = json.loads(template.one("AWS::ApiGatewayV2::Stage")["AccessLogSettings"]["Format"])

    assert logged["requestId"] == "$context.requestId"
    assert not any("header" in source or "query" in source.lower() for source in logged.values())


def test_the_access_log_takes_no_room_in_the_accounts_policy_and_is_new_for_each_stack(
    template: Template,
) -> None:
    destination = template.one("AWS::ApiGatewayV2::Stage")["AccessLogSettings"]["DestinationArn"]
    log = template.all("AWS::Logs::LogGroup")[destination["Fn::GetAtt"][0]]

    assert log["LogGroupName"]["Fn::Join"][1][0] == "/aws/vendedlogs/Ostler/access-"
    assert "AWS::StackId" in json.dumps(log["LogGroupName"])


def test_a_domain_of_ones_own_leads_to_the_api(template: Template, signed: Template) -> None:
    domain = signed.one("AWS::ApiGatewayV2::DomainName")
    mapping = signed.one("AWS::ApiGatewayV2::ApiMapping")

    assert domain["DomainName"] == "gpu.page.example"
    assert domain["DomainNameConfigurations"][0]["SecurityPolicy"] == "TLS_1_2"
    assert mapping["Stage"] == "$default"
    outputs = signed.body["Outputs"]
    assert outputs["ApiUrl"]["Value"] == "https://gpu.page.example"
    assert "RegionalDomainName" in json.dumps(outputs["DomainTarget"]["Value"])
    assert not template.all("AWS::ApiGatewayV2::DomainName")
    assert "DomainTarget" not in template.body["Outputs"]


def test_keys_are_checked_by_the_function_unless_told_otherwise(template: Template) -> None:
    assert {route["AuthorizationType"] for route in routes(template).values()} == {"NONE"}
    assert template.functions()["api"]["Environment"]["Variables"]["AUTH"] == "keys"


def test_the_gateway_can_check_tokens(chosen: Template) -> None:
    authorizer = chosen.one("AWS::ApiGatewayV2::Authorizer")

    assert routes(chosen)[GUARDED]["AuthorizationType"] == "JWT"
    assert routes(chosen)["$default"]["AuthorizationType"] == "NONE"
    assert authorizer["JwtConfiguration"] == {
        "Issuer": "https://issuer.example",
        "Audience": ["ostler", "others"],
    }
    assert chosen.functions()["api"]["Environment"]["Variables"]["AUTH"] == "jwt"


def test_the_gateway_can_check_signatures(signed: Template) -> None:
    assert routes(signed)[GUARDED]["AuthorizationType"] == "AWS_IAM"
    assert routes(signed)["$default"]["AuthorizationType"] == "NONE"
    assert signed.functions()["api"]["Environment"]["Variables"]["AUTH"] == "iam"


def test_other_origins_are_shut_out_unless_named(template: Template, chosen: Template) -> None:
    assert "CorsConfiguration" not in template.one("AWS::ApiGatewayV2::Api")
    assert chosen.one("AWS::ApiGatewayV2::Api")["CorsConfiguration"]["AllowOrigins"] == [
        "https://page.example"
    ]


def test_a_browser_may_ask_first_without_a_token(chosen: Template) -> None:
    assert routes(chosen)["OPTIONS /api/{proxy+}"]["AuthorizationType"] == "NONE"


def test_only_a_local_api_carries_the_emulators_tag(template: Template, chosen: Template) -> None:
    assert "Tags" not in template.one("AWS::ApiGatewayV2::Api")
    assert chosen.one("AWS::ApiGatewayV2::Api")["Tags"] == {"ms-custom-id": "0123abcd"}

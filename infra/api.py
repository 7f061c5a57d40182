"""The HTTP API: what the gateway lets through, how fast, to one function."""

import json

from aws_cdk import Acknowledgment, Aws, Duration, Fn, Tags, Validations
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.options import Options

# No headers and no query: neither keys nor what callers ask for belong in an access log.
ACCESS_LOG = {
    "requestId": "$context.requestId",
    "requestTime": "$context.requestTime",
    "sourceIp": "$context.identity.sourceIp",
    "method": "$context.httpMethod",
    "path": "$context.path",
    "routeKey": "$context.routeKey",
    "status": "$context.status",
    "responseLength": "$context.responseLength",
    "responseLatency": "$context.responseLatency",
    "integrationLatency": "$context.integrationLatency",
    "integrationError": "$context.integrationErrorMessage",
    "authorizerError": "$context.authorizer.error",
}

# What a browser page may send and may read; keys travel in Authorization, so cookies are never allowed.
SENT_HEADERS = ["Authorization", "Content-Type", "Idempotency-Key", "X-Correlation-ID", "X-Request-ID"]
READ_HEADERS = ["Location", "Retry-After", "X-Correlation-ID", "X-Request-ID"]

GUARDED = "/api/{proxy+}"
CHECKED_INSIDE = "The function checks API keys before routing (auth=keys); auth=iam and auth=jwt check here."
HOLDS_NO_DATA = "Health, docs and unknown paths hold no data; the function itself refuses everything else."


class Api(Construct):
    def __init__(
        self, scope: Construct, construct_id: str, *, function: lambda_.IFunction, options: Options
    ) -> None:
        super().__init__(scope, construct_id)
        api = gateway.HttpApi(
            self,
            "Api",
            description="Ostler",
            create_default_stage=False,
            cors_preflight=_cors(options) if options.cors_origins else None,
        )
        _routes(api, integrations.HttpLambdaIntegration("Function", function), options)
        self._stage(api, options)
        if options.local_api_id:
            # The emulator takes the API's id from this tag; nothing else reads it.
            Tags.of(api).add(
                "ms-custom-id", options.local_api_id, include_resource_types=["AWS::ApiGatewayV2::Api"]
            )
        self.id = api.api_id
        self.url = api.api_endpoint

    def serve_under(self, options: Options) -> str:
        """The domain's name at AWS, which its DNS record has to point to."""
        domain = gateway.DomainName(
            self,
            "Domain",
            domain_name=options.domain_name,
            certificate=acm.Certificate.from_certificate_arn(self, "Certificate", options.certificate_arn),
            security_policy=gateway.SecurityPolicy.TLS_1_2,
        )
        mapping = gateway.CfnApiMapping(
            self, "Mapping", api_id=self.id, domain_name=domain.name, stage="$default"
        )
        mapping.add_dependency(self._default_stage)
        return domain.regional_domain_name

    def _stage(self, api: gateway.HttpApi, options: Options) -> None:
        # Delivery to other names takes room in one policy of the account, which has 5,120 characters for all.
        # The log outlives its stack, so that the next stack of that name needs another: the end of its id.
        made = Fn.select(2, Fn.split("/", Aws.STACK_ID))
        access_log = logs.LogGroup(
            self,
            "AccessLog",
            log_group_name=f"/aws/vendedlogs/{options.name}/access-{made}",
            retention=options.log_retention,
            removal_policy=options.removal,
        )
        self._default_stage = gateway.CfnStage(
            self,
            "Stage",
            api_id=api.api_id,
            stage_name="$default",
            auto_deploy=True,
            default_route_settings=gateway.CfnStage.RouteSettingsProperty(
                throttling_burst_limit=options.throttle_burst, throttling_rate_limit=options.throttle_rate
            ),
            access_log_settings=gateway.CfnStage.AccessLogSettingsProperty(
                destination_arn=access_log.log_group_arn, format=json.dumps(ACCESS_LOG)
            ),
        )


def _routes(api: gateway.HttpApi, integration: gateway.HttpRouteIntegration, options: Options) -> None:
    guarded = _route(api, "Guarded", gateway.HttpMethod.ANY, integration, _authorizer(options))
    if options.auth == "keys":
        _acknowledge_open(guarded, CHECKED_INSIDE)
    if options.cors_origins and options.auth != "keys":
        # A browser asks first and without credentials; ANY with an authorizer would refuse it.
        preflight = _route(api, "Preflight", gateway.HttpMethod.OPTIONS, integration)
        _acknowledge_open(preflight, HOLDS_NO_DATA)
    rest = gateway.HttpRoute(
        api, "Rest", http_api=api, route_key=gateway.HttpRouteKey.DEFAULT, integration=integration
    )
    _acknowledge_open(rest, HOLDS_NO_DATA)


def _route(
    api: gateway.HttpApi,
    construct_id: str,
    method: gateway.HttpMethod,
    integration: gateway.HttpRouteIntegration,
    authorizer: gateway.IHttpRouteAuthorizer | None = None,
) -> gateway.HttpRoute:
    key = gateway.HttpRouteKey.with_(GUARDED, method)
    return gateway.HttpRoute(
        api, construct_id, http_api=api, route_key=key, integration=integration, authorizer=authorizer
    )


def _authorizer(options: Options) -> gateway.IHttpRouteAuthorizer | None:
    if options.auth == "iam":
        return authorizers.HttpIamAuthorizer()
    if options.auth == "jwt":
        return authorizers.HttpJwtAuthorizer(
            "Jwt", options.jwt_issuer, jwt_audience=list(options.jwt_audience)
        )
    return None


def _cors(options: Options) -> gateway.CorsPreflightOptions:
    return gateway.CorsPreflightOptions(
        allow_origins=list(options.cors_origins),
        allow_methods=[gateway.CorsHttpMethod.ANY],
        allow_headers=SENT_HEADERS,
        expose_headers=READ_HEADERS,
        max_age=Duration.hours(1),
    )


def _acknowledge_open(route: gateway.HttpRoute, reason: str) -> None:
    Validations.of(route).acknowledge(Acknowledgment(id="AwsSolutions-APIG4", reason=reason))

"""The option `edge=cloudfront`: CloudFront with a rate rule in front of the API, which answers nobody else.

The gateway's throttle is shared by all, and counts before anybody is known; a rate rule counts by address.
CloudFront takes rules from us-east-1 alone, so these are a stack of their own, wherever the service is.
"""

from aws_cdk import (
    Acknowledgment,
    Aws,
    CfnOutput,
    Duration,
    Environment,
    Fn,
    RemovalPolicy,
    Stack,
    Validations,
)
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_wafv2 as waf
from constructs import Construct

from infra.options import Options

RULES_REGION = "us-east-1"
ORIGIN_HEADER = "X-Origin-Verify"  # the API function compares it

WHY = {
    "AwsSolutions-SMG4": "CloudFormation copies it into the distribution; a new one is a new deploy.",
    "AwsSolutions-CFR1": "Callers may be anywhere.",
    "AwsSolutions-CFR3": "The gateway's access log has every request that passed; WAF counts the others.",
    "AwsSolutions-CFR4": "CloudFront's own name has CloudFront's own certificate; domainName brings another.",
}


class RateRules(Stack):
    """Deployed before the service, which refers to its output."""

    def __init__(self, scope: Construct, construct_id: str, *, options: Options) -> None:
        super().__init__(
            scope,
            construct_id,
            description="Ostler: how often one address may ask",
            env=Environment(region=RULES_REGION),
        )
        rules = waf.CfnWebACL(
            self,
            "Rules",
            scope="CLOUDFRONT",
            default_action=waf.CfnWebACL.DefaultActionProperty(allow={}),
            visibility_config=_counted(options, "Requests"),
            rules=[
                waf.CfnWebACL.RuleProperty(
                    name="TooManyFromOneAddress",
                    priority=0,
                    action=waf.CfnWebACL.RuleActionProperty(
                        block=waf.CfnWebACL.BlockActionProperty(
                            custom_response=waf.CfnWebACL.CustomResponseProperty(response_code=429)
                        )
                    ),
                    statement=waf.CfnWebACL.StatementProperty(
                        rate_based_statement=waf.CfnWebACL.RateBasedStatementProperty(
                            aggregate_key_type="IP", limit=options.edge_rate_limit, evaluation_window_sec=300
                        )
                    ),
                    visibility_config=_counted(options, "TooManyFromOneAddress"),
                )
            ],
        )
        CfnOutput(self, "WebAclArn", value=rules.attr_arn)


class Edge(Construct):
    def __init__(self, scope: Construct, construct_id: str, *, options: Options) -> None:
        super().__init__(scope, construct_id)
        self._options = options
        self._secret = secretsmanager.Secret(
            self,
            "OriginSecret",
            description="CloudFront shows it to the API, which answers nobody who does not.",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                password_length=64, exclude_punctuation=True
            ),
            removal_policy=RemovalPolicy.DESTROY,
        )
        _acknowledge(self._secret, "AwsSolutions-SMG4")
        self.secret_arn = self._secret.secret_arn

    def put_before(self, api_id: str) -> cloudfront.Distribution:
        options = self._options
        certificate = (
            acm.Certificate.from_certificate_arn(self, "Certificate", options.certificate_arn)
            if options.domain_name
            else None
        )
        distribution = cloudfront.Distribution(
            self,
            "Distribution",
            comment=options.name,
            http_version=cloudfront.HttpVersion.HTTP2_AND_3,
            minimum_protocol_version=cloudfront.SecurityPolicyProtocol.TLS_V1_2_2021,
            web_acl_id=Fn.get_stack_output(options.edge_name, "WebAclArn", RULES_REGION),
            default_behavior=cloudfront.BehaviorOptions(
                origin=origins.HttpOrigin(
                    f"{api_id}.execute-api.{Aws.REGION}.{Aws.URL_SUFFIX}",
                    protocol_policy=cloudfront.OriginProtocolPolicy.HTTPS_ONLY,
                    read_timeout=Duration.seconds(30),
                    # A reference that CloudFormation resolves; the template carries no secret.
                    custom_headers={ORIGIN_HEADER: self._secret.secret_value.unsafe_unwrap()},
                ),
                allowed_methods=cloudfront.AllowedMethods.ALLOW_ALL,
                viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.HTTPS_ONLY,
                # Everything is answered afresh, and the gateway knows itself by its own name alone.
                cache_policy=cloudfront.CachePolicy.CACHING_DISABLED,
                origin_request_policy=cloudfront.OriginRequestPolicy.ALL_VIEWER_EXCEPT_HOST_HEADER,
            ),
            domain_names=[options.domain_name] if options.domain_name else None,
            certificate=certificate,
        )
        _acknowledge(distribution, "AwsSolutions-CFR1", "AwsSolutions-CFR3", "AwsSolutions-CFR4")
        return distribution


def _counted(options: Options, name: str) -> waf.CfnWebACL.VisibilityConfigProperty:
    return waf.CfnWebACL.VisibilityConfigProperty(
        cloud_watch_metrics_enabled=True, metric_name=f"{options.name}-{name}", sampled_requests_enabled=True
    )


def _acknowledge(construct: Construct, *rules: str) -> None:
    for rule in rules:
        Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=WHY[rule]))

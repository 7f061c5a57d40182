"""AWS list prices in USD, us-east-1, without free tiers: the one place of the repository that has them."""

MONTH_SECONDS = 730 * 3600

LAMBDA_REQUEST = 0.20 / 1e6
LAMBDA_GB_SECOND = 0.0000133334  # arm64
DYNAMODB_WRITE_UNIT = 0.625 / 1e6  # on demand
DYNAMODB_READ_UNIT = 0.125 / 1e6
SQS_REQUEST = 0.40 / 1e6
SNS_PUBLISH = 0.50 / 1e6
API_REQUEST = 1.00 / 1e6  # HTTP API
SECRET_MONTH = 0.40
SECRET_REQUEST = 0.05 / 1e4
METRIC_MONTH = 0.30  # for each that is written in every hour; less, where it is not
ALARM_MONTH = 0.10
DASHBOARD_MONTH = 3.00
KMS_KEY_MONTH = 1.00
LOG_GB = 0.50

"""The CDK app: what runs in AWS. It knows the functions by name and never imports them."""

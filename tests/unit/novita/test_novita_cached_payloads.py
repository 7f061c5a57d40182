"""Products and templates survive a cache unchanged."""

import json
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from functions.shared.domain.market import Product, Template
from functions.shared.novita import payloads as stored

words = st.text(max_size=8)
tuples_of_words = st.lists(words, max_size=3).map(tuple)
prices = st.none() | st.decimals(0, 100, places=5)
sizes = st.integers(0, 9999)
products = st.builds(
    Product,
    words,
    words,
    tuples_of_words,
    st.booleans(),
    prices,
    prices,
    tuples_of_words,
    memory_per_gpu=sizes,
    cpu_per_gpu=sizes,
    min_rootfs=sizes,
    max_rootfs=sizes,
)
templates = st.builds(
    Template,
    words,
    words,
    words,
    words,
    ports=st.lists(st.tuples(sizes, words), max_size=3).map(tuple),
    envs=st.lists(st.tuples(words, words), max_size=3).map(tuple),
    tools=st.lists(st.tuples(words, words, words), max_size=3).map(tuple),
    rootfs_size=sizes,
)


def through_json(value: Any) -> Any:
    """As DynamoDB would give it back: its numbers are decimals."""
    return json.loads(json.dumps(value), parse_int=Decimal)


@given(products)
def test_a_product_comes_back_as_it_was(product: Product) -> None:
    assert stored.product_from_json(through_json(stored.product_to_json(product))) == product


@given(templates)
def test_a_template_comes_back_as_it_was(template: Template) -> None:
    assert stored.template_from_json(through_json(stored.template_to_json(template))) == template

"""Metrics against scores computed by hand."""

import math

import numpy as np
import pytest

import starling as sl


def batch(n=40, classes=5):
    generator = np.random.default_rng(0)
    return generator.normal(size=(n, classes)).astype(np.float32), generator.integers(0, classes, n)


def test_accuracy_and_top_k_count_hits():
    logits, labels = batch()
    accuracy, top = sl.metrics.Accuracy(), sl.metrics.TopK(k=2)
    assert math.isnan(accuracy.value)
    for part in (slice(0, 13), slice(13, None)):
        accuracy.update(logits[part], labels[part])
        top.update(sl.tensor(logits[part]), labels[part].astype(np.int32))
    assert accuracy.value == pytest.approx((logits.argmax(1) == labels).mean())
    assert top.value == pytest.approx(np.mean([y in np.argsort(-x)[:2] for x, y in zip(logits, labels)]))
    assert "accuracy" in repr(accuracy) and accuracy.higher_is_better
    accuracy.reset()
    assert math.isnan(accuracy.value)


def test_two_parts_merge_to_the_whole():
    logits, labels = batch()
    whole, first, second = (sl.metrics.Accuracy() for _ in range(3))
    whole.update(logits, labels)
    first.update(logits[:7], labels[:7])
    second.update(logits[7:], labels[7:])
    first.merge(second)
    assert first.value == pytest.approx(whole.value)


def test_every_metric_of_jobs_has_a_class_and_wrong_options_are_refused():
    names = [name for name in dir(sl.metrics) if isinstance(getattr(sl.metrics, name), type) and name != "Metric"]
    assert len(names) >= 5
    with pytest.raises(sl.Error, match="k"):
        sl.metrics.TopK(kk=2)
    with pytest.raises(sl.Error, match="expected"):
        sl.metrics.Accuracy().update(np.ones((2, 3), np.float32), np.ones(5, np.int64))

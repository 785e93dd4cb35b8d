"""Errors that are found while a program or a backward pass runs name the line that wrote the op."""

import inspect

import numpy as np
import pytest

import starling as sl


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    (at,) = [i for i, line in enumerate(lines) if text in line]
    return f"{__file__}:{first + at}"


def looks_up(table, ids):
    scaled = table * 2.0
    return sl.op.index_select(scaled, ids, axis=0).sum()  # the op that fails


TABLE = np.ones((4, 2), np.float32)


def test_a_failure_inside_a_compiled_program_names_the_users_line():
    program = sl.compile(looks_up)
    assert program(TABLE, np.array([0, 3])).item() == 8
    with pytest.raises(sl.Error, match="expected indices in") as caught:
        program(TABLE, np.array([0, 7]))
    assert str(caught.value).endswith(f" (written at {line_of(looks_up, 'the op that fails')})")
    assert program(TABLE, np.array([1, 1])).item() == 8  # the program is as good as before


def test_of_two_lines_that_wrote_the_op_both_are_named():
    def twice(table, ids):
        first = table.index_select(ids)  # one
        return first, table.index_select(ids + 1)  # another

    program = sl.compile(twice)
    with pytest.raises(sl.Error) as caught:
        program(TABLE, np.array([3]))
    assert str(caught.value).endswith(f" (written at {line_of(twice, '# one')} or {line_of(twice, '# another')})")


def one_hot(labels):
    return sl.one_hot(labels, 3)  # the op that fails


def with_loss(labels):
    return sl.cross_entropy(sl.zeros((2, 3)), labels)  # the op that fails


def in_a_module(ids, net=sl.nn.Embedding(4, 2)):
    return net(ids)  # the op that fails


def put(ids):
    return sl.zeros((4, 2))[ids]  # the op that fails


@pytest.mark.parametrize("function", [one_hot, with_loss, in_a_module, put])
def test_whatever_depends_on_values_names_its_line(function):
    program = sl.compile(function)
    program(np.array([0, 1]))
    with pytest.raises(sl.Error) as caught:
        program(np.array([0, 9]))
    assert line_of(function, "the op that fails") in str(caught.value)


def test_a_failure_in_a_body_of_control_flow_names_its_line():
    def body(state):
        i, table = state
        return i + 1, table + table.index_select(i.reshape(1))  # the op that fails

    program = sl.compile(lambda table, n: sl.while_loop(lambda state: state[0] < n, body, (sl.zeros((), "i64"), table)))
    program(TABLE, np.array(2))
    with pytest.raises(sl.Error, match="index_select") as caught:
        program(TABLE, np.array(6))
    assert line_of(body, "the op that fails") in str(caught.value)


def test_a_failure_of_a_compiled_gradient_names_the_line_of_its_op():
    def loss(x):
        return sl.op.cholesky(x).sum()  # the op that fails

    def step(x):
        return sl.grad(loss)(x)

    program = sl.compile(step)
    program(np.eye(2, dtype=np.float32))
    with pytest.raises(sl.Error, match="positive definite") as caught:
        program(-np.eye(2, dtype=np.float32))
    assert line_of(loss, "the op that fails") in str(caught.value)


def overwritten(x, double=False):
    kept = x * 2  # an operand
    y = kept.exp() if double else kept
    squares = y * y  # the op that fails
    with sl.no_grad():
        y[...] = 0.0
    return squares.sum()


def test_a_failure_inside_backward_names_the_line_of_the_op():
    x = sl.ones(3).requires_grad_()
    with pytest.raises(sl.Error, match="written in place since") as caught:
        overwritten(x).backward()
    assert str(caught.value).endswith(f" (written at {line_of(overwritten, 'the op that fails')} or {line_of(overwritten, 'an operand')})")


@pytest.mark.parametrize("transform", [lambda f, x: sl.grad(f)(x), lambda f, x: sl.vjp(f, x)[1](sl.tensor(1.0))])
def test_so_do_gradients_taken_as_functions(transform):
    with pytest.raises(sl.Error, match="written in place since") as caught:
        transform(overwritten, sl.ones(3))
    assert line_of(overwritten, "the op that fails") in str(caught.value)


def test_what_was_made_inside_a_module_counts_as_made_by_its_call():
    net = sl.nn.Sequential(sl.nn.Linear(3, 3), sl.nn.Tanh(), sl.nn.Linear(3, 3))
    hidden = []
    net[1].register_forward_hook(lambda module, inputs, output: hidden.append(output))

    def called(x):
        return net(x).sum()  # the op that fails

    y = called(sl.ones((2, 3)))
    with sl.no_grad():
        hidden[0][...] = 0.0
    with pytest.raises(sl.Error, match="written in place since") as caught:
        y.backward()
    assert "test_lines.py:" in str(caught.value)


def test_a_failure_of_an_eager_op_is_raised_at_its_line():
    with pytest.raises(sl.Error) as caught:
        looks_up(sl.ones((4, 2)), sl.tensor([9]))
    assert caught.traceback[-1].frame.code.name == "looks_up" and "written at" not in str(caught.value)

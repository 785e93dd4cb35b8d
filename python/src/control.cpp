#include "starling/graph/control/control.h"

#include <nanobind/stl/pair.h>

#include "bind.h"
#include "convert.h"
#include "held.h"
#include "interruptible.h"
#include "traced_lines.h"

// Control flow over flat lists of tensors; starling/control.py gives them structure.
namespace starling::python {
namespace {

nb::list list_of(const TensorList& tensors) {
  nb::list list;
  for (const auto& tensor : tensors) list.append(tensor);
  return list;
}

TensorList flat(nb::handle given) {
  TensorList tensors;
  for (const Tensor& tensor : to_tensors(given)) tensors.push_back(tensor);
  return tensors;
}

Branch branch(nb::object f) {
  return [f = held(std::move(f))] {
    const nb::gil_scoped_acquire gil;
    const NotesLines noting;
    return flat((*f)());
  };
}

TensorList looped(nb::object condition, nb::object body, nb::handle state, std::int64_t max_trips) {
  const auto holds = [f = held(std::move(condition))](const TensorList& now) {
    const nb::gil_scoped_acquire gil;
    const NotesLines noting;
    return to_tensor((*f)(list_of(now)));
  };
  const auto next = [f = held(std::move(body))](const TensorList& now) {
    const nb::gil_scoped_acquire gil;
    const NotesLines noting;
    return flat((*f)(list_of(now)));
  };
  const TensorList first = flat(state);
  return without_gil([&] { return while_loop(holds, next, first, {.max_trips = max_trips}); });
}

std::pair<TensorList, TensorList> scanned(nb::object body, nb::handle carry, nb::handle xs) {
  const auto one = [f = held(std::move(body))](const TensorList& now, const TensorList& x) {
    const nb::gil_scoped_acquire gil;
    const NotesLines noting;
    const nb::object both = (*f)(list_of(now), list_of(x));
    return std::pair{flat(both[0]), flat(both[1])};
  };
  const TensorList first = flat(carry), slices = flat(xs);
  return without_gil([&] { return scan(one, first, slices); });
}

}  // namespace

void bind_control(nb::module_& m) {
  m.def(
      "_cond",
      [](const Arg& predicate, nb::object then, nb::object otherwise) {
        const Branch one = branch(std::move(then)), other = branch(std::move(otherwise));
        return list_of(without_gil([&] { return cond(predicate.tensor, one, other); }));
      },
      nb::arg("predicate"), nb::arg("then"), nb::arg("otherwise"));
  m.def(
      "_while_loop",
      [](nb::object condition, nb::object body, nb::handle state, std::int64_t max_trips) {
        return list_of(looped(std::move(condition), std::move(body), state, max_trips));
      },
      nb::arg("condition"), nb::arg("body"), nb::arg("state"), nb::arg("max_trips"));
  m.def(
      "_scan",
      [](nb::object body, nb::handle carry, nb::handle xs) {
        const auto [last, ys] = scanned(std::move(body), carry, xs);
        return nb::make_tuple(list_of(last), list_of(ys));
      },
      nb::arg("body"), nb::arg("carry"), nb::arg("xs"));
}

}  // namespace starling::python

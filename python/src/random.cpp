#include "starling/ops/api/random.h"

#include "define.h"

namespace starling::python {

void bind_random(nb::module_& m) {
  m.def("manual_seed", &manual_seed, nb::arg("seed"), "Begins the random numbers of this thread anew.");
  m.def(
      "next_step", [] { default_generator().next_step(); },
      "Moves the random numbers of this thread on, as optimizer.step() does: a compiled function that draws some draws "
      "others at its next call. To be called between its calls, or inside it.");
  m.def(
      "uniform",
      [](const Shape& shape, double low, double high, DType dtype) {
        return uniform(shape, {low, high, dtype});
      },
      nb::arg("shape"), nb::arg("low") = 0.0, nb::arg("high") = 1.0, nb::arg("dtype") = DType::f32,
      "Numbers in [low, high).");
  m.def(
      "normal",
      [](const Shape& shape, double mean, double stddev, DType dtype) {
        return normal(shape, {mean, stddev, dtype});
      },
      nb::arg("shape"), nb::arg("mean") = 0.0, nb::arg("stddev") = 1.0, nb::arg("dtype") = DType::f32,
      "Normal numbers. In compiled functions: the same at every call until optimizer.step() or next_step().");
  m.def(
      "randint",
      [](std::int64_t low, std::int64_t high, const Shape& shape, DType dtype) {
        return randint(shape, {low, high, dtype});
      },
      nb::arg("low"), nb::arg("high"), nb::arg("shape"), nb::arg("dtype") = DType::i64, "Integers in [low, high).");
  m.def(
      "bernoulli", [](const Arg& p) { return bernoulli(p.tensor); }, nb::arg("p"), "1 with probability p, else 0.");
  m.def(
      "dropout", [](const Arg& x, double p) { return dropout(x.tensor, p); }, nb::arg("x"), nb::arg("p") = 0.5,
      "Zeroes each element with probability p and scales the rest by 1 / (1 - p).");
  m.def(
      "multinomial",
      [](const Arg& weights, std::int64_t count, bool replacement) {
        return multinomial(weights.tensor, {count, replacement});
      },
      nb::arg("weights"), nb::arg("count") = 1, nb::arg("replacement") = false,
      "Indices of the last axis, drawn by their weights.");
  m.def("permutation", &permutation, nb::arg("n"), "0 … n - 1 in random order.");
  def_axis(
      m, "shuffle", [](const Arg& x, std::int64_t axis) { return shuffle(x.tensor, axis); },
      "The slices of an axis in random order.", nb::arg("x"), nb::arg("axis") = 0);
}

}  // namespace starling::python

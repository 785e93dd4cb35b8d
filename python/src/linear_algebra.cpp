#include <nanobind/stl/string.h>

#include "define.h"
#include "starling/ops/api/dot.h"
#include "starling/ops/api/einsum.h"
#include "starling/ops/api/linalg.h"

namespace starling::python {

void bind_linear_algebra(nb::module_& m) {
  m.def(
      "dot", [](const Arg& a, const Arg& b) { return dot(a.tensor, b.tensor); }, nb::arg("a"), nb::arg("b"),
      "The sum of products of two vectors.");
  m.def(
      "outer", [](const Arg& a, const Arg& b) { return outer(a.tensor, b.tensor); }, nb::arg("a"), nb::arg("b"),
      "Products of each element of one vector with each of the other.");
  m.def(
      "einsum", [](const std::string& equation, nb::args xs) { return einsum(equation, to_tensors(xs)); },
      nb::arg("equation"), nb::arg("xs"),
      "The sum of products that the equation says: einsum(\"bij,bjk->bik\", a, b).");
  def_unary<&inverse>(m, "inverse", "The inverse of each matrix.");
  def_unary<&determinant>(m, "determinant", "The determinant of each matrix.");
  def_unary<&matrix_transpose>(m, "matrix_transpose", "The last two axes swapped.");
  m.def(
      "solve", [](const Arg& a, const Arg& b) { return solve(a.tensor, b.tensor); }, nb::arg("a"), nb::arg("b"),
      "x with a · x = b.");
  m.def(
      "cholesky", [](const Arg& a, bool upper) { return cholesky(a.tensor, {upper}); }, nb::arg("a"),
      nb::arg("upper") = false, "The triangular factor of positive definite matrices: lower, or upper.");
  m.def(
      "slogdet",
      [](const Arg& a) {
        const auto r = slogdet(a.tensor);
        return nb::make_tuple(r.sign, r.log);
      },
      nb::arg("a"), "Signs of determinants, and logarithms of their sizes.");
  m.def(
      "qr",
      [](const Arg& a) {
        const auto r = qr(a.tensor);
        return nb::make_tuple(r.q, r.r);
      },
      nb::arg("a"), "(q, r): orthogonal columns, and what is triangular; a = q · r.");
  m.def(
      "svd",
      [](const Arg& a) {
        const auto r = svd(a.tensor);
        return nb::make_tuple(r.u, r.s, r.vh);
      },
      nb::arg("a"), "(u, s, vh): a = u · diag(s) · vh with s descending.");
  m.def(
      "eigh",
      [](const Arg& a) {
        const auto r = eigh(a.tensor);
        return nb::make_tuple(r.values, r.vectors);
      },
      nb::arg("a"), "Eigenvalues of symmetric matrices, ascending, and eigenvectors as columns.");
}

}  // namespace starling::python

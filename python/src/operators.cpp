#include "bind.h"
#include "convert.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/bitwise.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/logical.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/unary.h"

// Operators of tensors. A number beside a tensor takes its dtype; what is no number and no array leaves the operator to
// the other side.
namespace starling::python {
namespace {

using TensorTensor = Tensor (*)(const Tensor&, const Tensor&);
using TensorNumber = Tensor (*)(const Tensor&, double);

bool is_plain_number(nb::handle given, const Tensor& beside) {
  if (PyBool_Check(given.ptr())) return false;
  if (PyFloat_Check(given.ptr())) return is_float(beside.dtype());
  return PyLong_Check(given.ptr()) && is_float(beside.dtype());
}

nb::object not_implemented() { return nb::borrow(Py_NotImplemented); }

// Of two tensors. u64 is for storage in C++, which takes integers as i64 to compare and divide them: `unsigned_name` is
// the function of the array API's namespace that computes such an operator by other ops, null where F takes u64.
template <TensorTensor F>
nb::object apply(const Tensor& a, const Tensor& b, const char* unsigned_name) {
  if (unsigned_name && a.dtype() == DType::u64 && b.dtype() == DType::u64)
    return nb::module_::import_("starling.array_api").attr(unsigned_name)(a, b);
  return nb::cast(F(a, b));
}

template <TensorTensor F, TensorNumber N, bool kCompares = false>
nb::object forward(const Tensor& self, nb::handle other, const char* unsigned_name) {
  if (nb::isinstance<Tensor>(other)) return apply<F>(self, nb::cast<const Tensor&>(other), unsigned_name);
  if (is_plain_number(other, self)) {
    if constexpr (N != nullptr) return nb::cast(N(self, scalar_value(other)));
  }
  if (!convertible(other)) return not_implemented();
  return apply<F>(self, to_tensor_beside(other, self, kCompares), unsigned_name);
}

template <TensorTensor F>
nb::object reverse(const Tensor& self, nb::handle other, const char* unsigned_name) {
  if (!convertible(other)) return not_implemented();
  return apply<F>(to_tensor_beside(other, self), self, unsigned_name);
}

// Division of integers is exact, as Python's is.
Tensor true_div(const Tensor& a, const Tensor& b) {
  const auto exact = [](const Tensor& x) { return is_float(x.dtype()) ? x : cast(x, DType::f32); };
  return div(is_float(b.dtype()) ? a : exact(a), is_float(a.dtype()) ? b : exact(b));
}
Tensor product(const Tensor& a, const Tensor& b) { return matmul(a, b); }

template <TensorTensor F, TensorNumber N = nullptr>
void both(nb::class_<Tensor>& tensor, const char* name, const char* reversed, const char* unsigned_name = nullptr) {
  const auto left = [unsigned_name](const Tensor& a, nb::handle b) { return forward<F, N>(a, b, unsigned_name); };
  const auto right = [unsigned_name](const Tensor& a, nb::handle b) { return reverse<F>(a, b, unsigned_name); };
  tensor.def(name, left, nb::arg("other").none());
  tensor.def(reversed, right, nb::arg("other").none());
}
template <TensorTensor F, TensorNumber N>
void comparison(nb::class_<Tensor>& tensor, const char* name, const char* unsigned_name = nullptr) {
  const auto compare = [unsigned_name](const Tensor& a, nb::handle b) {
    return forward<F, N, true>(a, b, unsigned_name);
  };
  tensor.def(name, compare, nb::arg("other").none());
}

}  // namespace

void bind_tensor_operators(nb::class_<Tensor>& tensor) {
  both<&add, &add>(tensor, "__add__", "__radd__");
  both<&sub, &sub>(tensor, "__sub__", "__rsub__");
  both<&mul, &mul>(tensor, "__mul__", "__rmul__");
  both<&true_div, &div>(tensor, "__truediv__", "__rtruediv__");
  both<&floor_div, &floor_div>(tensor, "__floordiv__", "__rfloordiv__", "floor_divide");
  both<&mod, &mod>(tensor, "__mod__", "__rmod__", "remainder");
  both<&pow, &pow>(tensor, "__pow__", "__rpow__");
  both<&product>(tensor, "__matmul__", "__rmatmul__");
  both<&bitwise_and>(tensor, "__and__", "__rand__");
  both<&bitwise_or>(tensor, "__or__", "__ror__");
  both<&bitwise_xor>(tensor, "__xor__", "__rxor__");
  both<&left_shift>(tensor, "__lshift__", "__rlshift__");
  both<&right_shift>(tensor, "__rshift__", "__rrshift__", "bitwise_right_shift");
  comparison<&equal, &equal>(tensor, "__eq__");
  comparison<&not_equal, &not_equal>(tensor, "__ne__");
  comparison<&less, &less>(tensor, "__lt__", "less");
  comparison<&less_equal, &less_equal>(tensor, "__le__", "less_equal");
  comparison<&greater, &greater>(tensor, "__gt__", "greater");
  comparison<&greater_equal, &greater_equal>(tensor, "__ge__", "greater_equal");
  tensor
      .def("__neg__",
           [](const Tensor& self) {
             if (self.dtype() == DType::boolean)
               throw nb::type_error("[neg] expected numbers, got booleans: use ~x, or convert them, x.long()");
             return neg(self);
           })
      .def("__pos__", [](const Tensor& self) { return self; })
      .def("__abs__", [](const Tensor& self) { return self.dtype() == DType::u64 ? self : abs(self); })
      .def("__invert__", [](const Tensor& self) { return bitwise_not(self); });
}

}  // namespace starling::python

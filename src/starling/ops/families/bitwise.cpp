#include "starling/ops/api/bitwise.h"

#include "starling/base/error.h"
#include "starling/ops/api/logical.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/elementwise_def.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

using elementwise::promoted;

Tensor bitwise_and(const Tensor& a, const Tensor& b) { return promoted(named_op<"bitwise_and">(), a, b); }
Tensor bitwise_or(const Tensor& a, const Tensor& b) { return promoted(named_op<"bitwise_or">(), a, b); }
Tensor bitwise_xor(const Tensor& a, const Tensor& b) { return promoted(named_op<"bitwise_xor">(), a, b); }
Tensor bitwise_not(const Tensor& x) {
  return x.defined() && x.dtype() == DType::boolean ? logical_not(x) : apply1(named_op<"bitwise_not">(), {x});
}
Tensor left_shift(const Tensor& x, const Tensor& bits) { return promoted(named_op<"left_shift">(), x, bits); }
Tensor right_shift(const Tensor& x, const Tensor& bits) { return promoted(named_op<"right_shift">(), x, bits); }

namespace {

using elementwise::bits;
using elementwise::wrap;

Types infer_bits(const InferCall& call) {
  check(!is_float(call.in[0].dtype), "[{}] expected integers or bools, got {}", call.op.name, to_string(call.in[0]));
  return rules::infer_broadcast(call);
}

Types infer_integers(const InferCall& call) {
  const DType dtype = call.in[0].dtype;
  check(!is_float(dtype) && dtype != DType::boolean, "[{}] expected integers, got {}", call.op.name,
        to_string(call.in[0]));
  return rules::infer_broadcast(call);
}

// Never called: the op refuses floats, but elementwise ops need an f64 definition.
double no_floats(const double*) { fail("[bitwise] expected integers, got floats"); }

OpDef bitwise(std::string name, std::string doc, elementwise::Integer integer, std::vector<DType> also,
              elementwise::Range range = {-99, 99}) {
  OpDef op = elementwise::binary(std::move(name), std::move(doc), no_floats, nullptr, kSavesNothing);
  op.infer = also.empty() ? infer_integers : infer_bits;
  op.integer = integer;
  op.cases = [also = std::move(also), range] {
    auto cases = elementwise::whole_cases(2, range, {DType::i32, DType::i64});
    for (const auto& more : elementwise::whole_cases(2, {0, 1.99}, also)) cases.push_back(more);
    return cases;
  };
  return op;
}

std::int64_t shift_left(const std::int64_t* x) { return x[1] < 0 || x[1] > 63 ? 0 : wrap(bits(x[0]) << x[1]); }

// Narrower integers are sign-extended: beyond their width only the sign remains here too.
std::int64_t shift_right(const std::int64_t* x) { return x[0] >> (x[1] < 0 || x[1] > 63 ? 63 : x[1]); }

}  // namespace

void register_ops_bitwise(OpRegistry& ops) {
  const std::vector<DType> bools = {DType::boolean};
  OpDef both = bitwise(
      "bitwise_and", "The bits that both have.", [](const std::int64_t* x) { return x[0] & x[1]; }, bools);
  OpDef any = bitwise(
      "bitwise_or", "The bits that one of the two has.", [](const std::int64_t* x) { return x[0] | x[1]; }, bools);
  OpDef one = bitwise(
      "bitwise_xor", "The bits that exactly one of the two has.", [](const std::int64_t* x) { return x[0] ^ x[1]; },
      bools);
  for (OpDef* op : {&both, &any, &one}) {
    op->commutative = true;
    ops.add(*op);
  }
  OpDef inverse =
      elementwise::unary("bitwise_not", "Every bit the other way round.", no_floats, nullptr, kSavesNothing);
  inverse.infer = infer_integers;
  inverse.integer = [](const std::int64_t* x) { return ~x[0]; };
  inverse.cases = [] { return elementwise::whole_cases(1, {-99, 99}, {DType::i32, DType::i64}); };
  ops.add(inverse);
  ops.add(bitwise("left_shift", "The bits moved up; by less than 0 or by the width and more: 0.", shift_left, {},
                  {-3, 70}));
  OpDef down = bitwise("right_shift",
                       "The bits moved down, with the sign; by less than 0 or by the width and more: the sign alone.",
                       shift_right, {}, {-3, 70});
  down.infer = [](const InferCall& call) {
    rules::expect_ordered(call);
    return infer_integers(call);
  };
  ops.add(down);
}

}  // namespace starling

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "ops/op_checks.h"
#include "starling/kernels/eager.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

// Calls drawn at random: a sample call with sizes, dtypes, memory, operands and attributes changed. Every call must
// give what the reference kernel gives, or be refused with an Error; nothing else may happen.
namespace starling::testing {
namespace {

constexpr int kCalls = 120000 / kShards;  // in one shard
constexpr std::int64_t kMostElements = 20000;

struct RandomCall {
  const OpDef* op;
  OpCase sample;
  DType floats;
  std::vector<Tensor> in{};
  // Where a few elements of one operand are not finite and may spread: the operands with other numbers in their place.
  std::vector<std::vector<Tensor>> finite{};
  bool nan = false;                    // NaN instead of infinities
  std::size_t which = 0;               // the operand
  std::vector<std::int64_t> places{};  // of the elements in it
};

class Caller {
 public:
  explicit Caller(unsigned seed) : random_(seed) {}

  RandomCall draw_call(const OpDef& op) {
    const auto samples = op.cases();
    RandomCall call{&op, samples[pick(samples.size())], pick_floats()};
    const auto changes = pick(4);  // a quarter stays unchanged, with new values and strides
    for (std::size_t i = 0; i < changes; ++i) change(call.sample);
    for (const auto& in : call.sample.in) {
      if (in.shape.numel() > kMostElements) return call;
    }
    call.in = draw(call.sample, call.floats, static_cast<unsigned>(random_())).in;
    if (chance(3)) {
      if (!op.elementwise() && spreads_freely(op)) {
        put_few(call);
      } else {
        const Edges edges = op.elementwise() && is_one_product(op) ? Edges::all
                            : takes_small(op)                      ? Edges::small
                                                                   : Edges::special;
        for (auto& x : call.in) put_edges(x, edges);
      }
    }
    for (auto& x : call.in) x = in_other_memory(x);
    if (!call.finite.empty()) return call;
    if (chance(40) && !call.in.empty()) call.in.pop_back();
    if (chance(60)) call.in.push_back(call.in.empty() ? zeros({2}) : call.in.back());
    if (chance(25) && !call.in.empty()) replace(call.in[pick(call.in.size())]);
    return call;
  }

 private:
  std::size_t pick(std::size_t n) { return random_() % n; }
  bool chance(unsigned one_in) { return random_() % one_in == 0; }
  DType pick_floats() {
    constexpr DType floats[] = {DType::f32, DType::f32, DType::f64, DType::f64, DType::f16, DType::bf16};
    return floats[pick(std::size(floats))];
  }

  void change(OpCase& sample) {
    if (chance(2))
      change_size(sample);
    else
      change_attribute(sample.attrs);
  }

  // One size becomes another wherever it stands, in operands and lists of integers: often the call stays a valid one.
  void change_size(OpCase& sample) {
    std::vector<std::int64_t> sizes;
    for (const auto& in : sample.in) sizes.insert(sizes.end(), in.shape.begin(), in.shape.end());
    if (sizes.empty()) return;
    constexpr std::int64_t others[] = {0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33};
    const std::int64_t from = sizes[pick(sizes.size())], to = others[pick(std::size(others))];
    const auto rename = [&](Shape& shape) {
      for (int i = 0; i < shape.rank(); ++i) shape[i] = shape[i] == from ? to : shape[i];
    };
    for (auto& in : sample.in) rename(in.shape);
    for (const auto& field : sample.attrs.type().fields) {
      if (field.kind == AttrKind::ints) rename(sample.attrs.get<Shape>(field));
    }
  }

  std::int64_t near(std::int64_t value) {
    if (chance(12))
      return chance(2) ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
    // Wraps: defaults may be the largest integer.
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(value) + pick(5) - 2);
  }

  void change_attribute(Attrs& attrs) {
    const auto& fields = attrs.type().fields;
    if (fields.empty()) return;
    const AttrField& field = fields[pick(fields.size())];
    switch (field.kind) {
      case AttrKind::integer: attrs.get<std::int64_t>(field) = near(attrs.get<std::int64_t>(field)); break;
      case AttrKind::real: change_real(attrs.get<double>(field)); break;
      case AttrKind::boolean: attrs.get<bool>(field) = !attrs.get<bool>(field); break;
      case AttrKind::dtype: attrs.get<DType>(field) = static_cast<DType>(pick(kDTypeCount)); break;
      case AttrKind::ints: change_ints(attrs.get<Shape>(field)); break;
      case AttrKind::pair: {
        auto& at = attrs.get<Pair>(field)[pick(2)];
        at = near(at);
        break;
      }
      case AttrKind::symbol: change_symbol(attrs.get<Symbol>(field)); break;
      case AttrKind::reduction: attrs.get<ReduceOp>(field) = static_cast<ReduceOp>(pick(kReduceOpCount)); break;
    }
  }

  void change_real(double& value) {
    constexpr double others[] = {0, 1, -1, 0.5, 2, 1e-3, 1e30, HUGE_VAL, -HUGE_VAL, NAN};
    value = others[pick(std::size(others))];
  }

  void change_ints(Shape& shape) {
    if (shape.rank() > 0 && !chance(4)) {
      auto& at = shape[static_cast<int>(pick(static_cast<std::size_t>(shape.rank())))];
      at = near(at);
    } else if (shape.rank() > 0 && chance(2)) {
      shape.erase(0);
    } else if (shape.rank() < kMaxRank) {
      shape.push_back(static_cast<std::int64_t>(pick(4)));
    }
  }

  void change_symbol(Symbol& symbol) {
    constexpr std::string_view others[] = {"",    "relu", "tanh",    "sum",       "mean",
                                           "max", "none", "reflect", "ij,jk->ik", "?"};
    symbol = Symbol(others[pick(std::size(others))]);
  }

  // False for losses, gradients and interpolations: they multiply several numbers, and what leaves the range of f32 on
  // the way need not leave that of the reference's f64. They meet subnormal numbers, and not the ends of the dtype.
  static bool is_one_product(const OpDef& op) {
    return !op.name.ends_with("_loss") && !op.name.ends_with("_backward") && op.name != "lerp";
  }

  // Families in which a number that is not finite reaches other elements in the fast kernel than in the reference: it
  // is multiplied by the zeros of padding, of masks and of weights that one of them skips, or decides a comparison.
  // Their laws are those of spread_wrongly().
  static bool spreads_freely(const OpDef& op) {
    constexpr std::string_view families[] = {
        "conv",       "local_", "interpolate", "attention", "_layer", "ctc", "_update", "batch_norm_infer_backward",
        "matmul_act", "linear", "svd",         "qr",        "det",    "pinv"};
    const auto in = [&](std::string_view family) { return op.name.find(family) != std::string::npos; };
    return op.name.starts_with("eigh") || std::any_of(std::begin(families), std::end(families), in);
  }

  // False for ops that divide by what they are given, or take its root: a subnormal number overflows there, in f32 or
  // in the reference's f64 alone, or decides whether a matrix is refused. And for a loss in which a weight is added
  // to 1 and taken from it again: a subnormal one is lost, and where it stood beside ∞ there is NaN.
  static bool takes_small(const OpDef& op) {
    if (op.elementwise()) return op.name != "bce_with_logits_loss";
    constexpr std::string_view families[] = {"_backward", "cholesky", "inverse", "solve", "fused"};
    const auto in = [&](std::string_view family) { return op.name.find(family) != std::string::npos; };
    return std::none_of(std::begin(families), std::end(families), in);
  }

  enum class Edges {
    special,
    small,
    all
  };  // NaN, infinities, 0, 1; subnormal numbers, too; the ends of the dtype, too

  // Puts such numbers at about a third of the elements of a float operand.
  void put_edges(Tensor& x, Edges edges) {
    if (!is_float(x.dtype())) return;
    auto values = x.to_vector();
    for (auto& v : values) v = chance(3) ? edge_value(x.dtype(), edges) : v;
    x = from_doubles(values, x.shape(), x.dtype());
  }

  double edge_value(DType dtype, Edges edges) {
    struct Ends {
      double least, normal, most;
    };
    constexpr Ends f16{0x1p-24, 0x1p-14, 65504}, bf16{0x1p-133, 0x1p-126, 0x1.fep127}, f32{0x1p-149, 0x1p-126, FLT_MAX},
        f64{0x1p-1074, DBL_MIN, DBL_MAX};
    const Ends& ends = dtype == DType::f16 ? f16 : dtype == DType::bf16 ? bf16 : dtype == DType::f32 ? f32 : f64;
    const double others[] = {NAN, HUGE_VAL, 0, 1, ends.least, ends.normal, ends.most};
    constexpr std::size_t kinds[] = {4, 6, 7};
    return (chance(2) ? -1 : 1) * others[pick(kinds[static_cast<std::size_t>(edges)])];
  }

  // Puts NaN or an infinity at one to three elements of one float operand; in their place the call's finite operands
  // have what was there and numbers that are far from it on either side.
  void put_few(RandomCall& call) {
    std::vector<std::size_t> floats;
    for (std::size_t i = 0; i < call.in.size(); ++i) {
      if (is_float(call.in[i].dtype()) && call.in[i].numel() > 0) floats.push_back(i);
    }
    if (floats.empty()) return;
    const std::size_t which = floats[pick(floats.size())];
    const Tensor whole = call.in[which];
    const double special = chance(2) ? NAN : edge_value(whole.dtype(), Edges::special);
    std::vector<std::size_t> places;
    for (std::size_t i = 0, few = 1 + pick(3); i < few; ++i)
      places.push_back(pick(static_cast<std::size_t>(whole.numel())));
    const auto with = [&](std::optional<double> number) {
      auto values = whole.to_vector();
      for (const std::size_t at : places) values[at] = number.value_or(values[at]);
      return from_doubles(values, whole.shape(), whole.dtype());
    };
    for (const auto& number : {std::optional<double>(), std::optional(40.0), std::optional(-40.0)}) {
      call.finite.push_back(call.in);
      call.finite.back()[which] = with(number);
    }
    call.in[which] = with(special);
    call.nan = std::isnan(special);
    call.which = which;
    call.places.assign(places.begin(), places.end());
  }

  // Reversed dimensions, every second element of a larger tensor, or as it is.
  Tensor in_other_memory(const Tensor& x) {
    if (chance(3)) return strided_copy(x);
    if (!chance(4) || x.rank() == 0) return x;
    Shape wide = x.shape();
    wide[x.rank() - 1] *= 2;
    const Tensor memory = zeros(wide, x.dtype());
    Shape strides = contiguous_strides(wide);
    strides[x.rank() - 1] = 2;
    const auto values = x.to_vector();
    const Tensor view = view_of(memory, x.shape(), strides, x.numel() > 0 ? 1 : 0);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const auto size = static_cast<std::int64_t>(size_of(x.dtype()));
      std::memcpy(static_cast<std::byte*>(memory.raw()) + (2 * i + 1) * size,
                  static_cast<const std::byte*>(x.raw()) + i * size, static_cast<std::size_t>(size));
    }
    return view;
  }

  void replace(Tensor& x) {
    constexpr DType dtypes[] = {DType::f32, DType::f64, DType::i64, DType::i32,
                                DType::u8,  DType::i8,  DType::u64, DType::boolean};
    Shape shape;
    for (std::size_t i = 0, rank = pick(5); i < rank; ++i) shape.push_back(static_cast<std::int64_t>(pick(6)));
    const OpCase other{{{.shape = shape, .low = 0, .high = 3, .dtype = dtypes[pick(std::size(dtypes))]}},
                       op::NoAttrs{}};
    x = draw(other, DType::f32, static_cast<unsigned>(random_())).in[0];
  }

  std::mt19937 random_;
};

std::string describe_call(const RandomCall& call) {
  std::string text = call.op->name + "(";
  for (const auto& x : call.in) text += to_string(x.type()) + " strides " + to_string(x.strides()) + ", ";
  return text + ") " + call.sample.attrs.print();
}

struct Outcome {
  std::optional<TensorList> values;
  std::string refusal{};
};

Outcome run(const RandomCall& call) {
  try {
    return {apply(*call.op, call.in, attrs_for(call.sample, call.floats)), {}};
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind('[', 0), 0u) << describe_call(call) << ": " << error.what();
    return {std::nullopt, error.what()};
  } catch (const std::exception& error) {
    ADD_FAILURE() << describe_call(call) << " threw what is no Error: " << error.what();
    return {std::nullopt, error.what()};
  }
}

// True if the results are small enough for a quick call.
bool is_small(const RandomCall& call) {
  try {
    const Types types = types_of(call.in);
    for (const auto& type : infer(*call.op, {types.data(), types.size()}, attrs_for(call.sample, call.floats))) {
      if (type.shape.numel() > kMostElements && type.shape.numel() < (std::int64_t{1} << 45)) return false;
    }
  } catch (const Error&) {
  }
  return true;
}

// Relative to the largest value of the result: random operands make badly conditioned sums. Of ops whose order of sums
// is free, NaN and infinity are alike: which of them comes of ∞ - ∞ or ∞ · 0 depends on it. `signs`: -0 is not 0.
struct Off {
  double by = 0;
  std::string where{};
};
Off off_by(const Tensor& got, const Tensor& want, bool ordered, bool signs) {
  if (!(got.type() == want.type())) return {HUGE_VAL, "another type"};
  if (want.numel() > kMostElements) return {};  // a view that repeats few elements without end
  const auto a = got.to_vector(), b = want.to_vector();
  double largest = 1;
  for (double v : b) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
  Off worst;
  const auto note = [&](double by, std::size_t at) {
    if (by > worst.by) worst = {by, fmt::format("{} in place of {} at {}", a[at], b[at], at)};
  };
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (signs && a[i] == 0 && b[i] == 0 && std::signbit(a[i]) != std::signbit(b[i])) note(HUGE_VAL, i);
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (ordered && !std::isfinite(a[i]) && !std::isfinite(b[i])) continue;
    const bool finite = std::isfinite(a[i]) && std::isfinite(b[i]);
    note(finite ? std::abs(a[i] - b[i]) / largest : HUGE_VAL, i);
  }
  return worst;
}

// Tolerance by the narrowest float of the call.
double tolerance(const RandomCall& call, std::span<const Tensor> out) {
  double allowed = call.op->random ? 1e-5 : 1e-8;  // random kernels compute in float for every dtype
  const auto widen = [&](const Tensor& x) {
    if (is_half(x.dtype())) allowed = std::max(allowed, 5e-2);
    if (x.dtype() == DType::f32) allowed = std::max(allowed, 1e-3);
  };
  std::for_each(call.in.begin(), call.in.end(), widen);
  std::for_each(out.begin(), out.end(), widen);
  return allowed;
}

// Elements that differ in any bit between results of the reference for the finite operands: those that depend on what
// is not finite in the call. Empty: an output changed its type, or the reference refuses.
std::vector<std::vector<bool>> dependent(const RandomCall& call) {
  const kernels::ReferenceScope reference;
  std::vector<TensorList> results;
  for (const auto& in : call.finite) {
    const Outcome made = run({call.op, call.sample, call.floats, in});
    if (!made.values) return {};
    results.push_back(*made.values);
  }
  std::vector<std::vector<bool>> all;
  for (std::size_t o = 0; o < results[0].size(); ++o) {
    const auto first = results[0][o].to_vector();
    std::vector<bool> differs(first.size());
    for (const auto& result : results) {
      const auto other = result[o].to_vector();
      if (other.size() != first.size()) return {};
      for (std::size_t i = 0; i < first.size(); ++i)
        differs[i] = differs[i] || !(first[i] == other[i] || (std::isnan(first[i]) && std::isnan(other[i])));
    }
    all.push_back(std::move(differs));
  }
  return all;
}

bool is_one_of(const OpDef& op, std::initializer_list<std::string_view> families) {
  return std::any_of(families.begin(), families.end(),
                     [&](std::string_view family) { return op.name.find(family) != std::string::npos; });
}

// NaN is lost, or a matrix it is in gets factors, where it is compared: maxima in rules of updates, pivots, and losses
// that are left out if they are not finite.
bool loses_nan(const OpDef& op) { return is_one_of(op, {"svd", "qr", "det", "pinv", "eigh", "adam", "ctc"}); }

// Dimension of the first operand and of the results that counts samples, which have nothing to do with each other; -1:
// unknown.
int sample_axis(const OpDef& op) {
  if (is_one_of(op, {"_backward", "_tangent", "_derivative", "recurrence"})) return -1;
  if (is_one_of(op, {"_layer"})) return 1;
  return is_one_of(op, {"conv", "local_", "interpolate", "attention", "matmul_act", "linear"}) ? 0 : -1;
}

std::int64_t index_along(const Shape& shape, int axis, std::int64_t place) {
  for (int d = shape.rank() - 1; d > axis; --d) place /= shape[d];
  return place % shape[axis];
}

// Numbers of the first operand that are not finite leave other samples than their own alone. Empty: so they do.
std::string spoilt_sample(const RandomCall& call, const Tensor& got, const Tensor& want, double allowed) {
  const int axis = sample_axis(*call.op);
  const Shape& in = call.in[0].shape();
  if (axis < 0 || call.which != 0 || in.rank() <= axis + 1 || got.rank() != in.rank() || got.size(axis) != in[axis])
    return {};
  std::set<std::int64_t> spoilt;
  for (const std::int64_t place : call.places) spoilt.insert(index_along(in, axis, place));
  const auto a = got.to_vector(), b = want.to_vector();
  double largest = 1;
  for (double v : b) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
  for (std::int64_t i = 0; i < got.numel(); ++i) {
    const double is = a[static_cast<std::size_t>(i)], be = b[static_cast<std::size_t>(i)];
    if (spoilt.contains(index_along(got.shape(), axis, i)) || !std::isfinite(be)) continue;
    if (!(std::abs(is - be) <= allowed * largest))
      return fmt::format("expected {} at {} of another sample, got {}", be, i, is);
  }
  return {};
}

// An element that depends on NaN, and is NaN by the reference, is not finite. Empty: so it is.
std::string lost_nan(const RandomCall& call, const std::vector<bool>& depends, const Tensor& got, const Tensor& want) {
  if (!call.nan || loses_nan(*call.op)) return {};
  const auto a = got.to_vector(), b = want.to_vector();
  if (a.size() != depends.size() || b.size() != depends.size()) return {};
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (depends[i] && std::isnan(b[i]) && std::isfinite(a[i]))
      return fmt::format("expected NaN at {}, got {}", i, a[i]);
  }
  return {};
}

// Fault of a result over which a few numbers that are not finite may spread; empty: none.
std::string spread_wrongly(const RandomCall& call, const Outcome& got, const Outcome& want) {
  const auto depends = dependent(call);
  const double allowed = tolerance(call, {got.values->data(), got.values->size()});
  for (std::size_t o = 0; o < got.values->size(); ++o) {
    const Tensor &is = (*got.values)[o], &be = (*want.values)[o];
    if (!(is.type() == be.type())) return fmt::format("{}, output {}: another type", describe_call(call), o);
    std::string wrong = spoilt_sample(call, is, be, allowed);
    if (wrong.empty() && o < depends.size()) wrong = lost_nan(call, depends[o], is, be);
    if (!wrong.empty()) return fmt::format("{}, output {}: {}", describe_call(call), o, wrong);
  }
  return {};
}

// True if rounding alone decides whether a matrix is positive definite: one kernel found its factor, which is nearly
// singular, and the other found none.
bool is_barely_definite(const RandomCall& call, const Outcome& got, const Outcome& want) {
  const Outcome &found = got.values ? got : want, &refused = got.values ? want : got;
  if (call.op->name != "cholesky" || refused.refusal.find("positive definite") == std::string::npos) return false;
  const Tensor& factor = found.values->front();
  const auto size = static_cast<std::size_t>(factor.size(-1));
  const std::vector<double> values = factor.to_vector();
  for (std::size_t matrix = 0; matrix < values.size(); matrix += size * size) {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (std::size_t i = 0; i < size; ++i) {
      least = std::min(least, values[matrix + i * (size + 1)]);
      most = std::max(most, values[matrix + i * (size + 1)]);
    }
    if (least <= 1e-3 * most) return true;
  }
  return false;
}

// True if -0 and 0 are told apart: of elementwise ops but losses, which are not negative: the sign of one that is 0 is
// that of whatever was cancelled or cut off.
bool tells_zeros(const OpDef& op) { return op.elementwise() && !op.name.ends_with("_loss"); }

// Difference between fast and reference kernels; empty if they agree.
std::string disagreement(const RandomCall& call, const Outcome& got, const Outcome& want) {
  if (got.values.has_value() != want.values.has_value()) {
    if (is_barely_definite(call, got, want)) return {};
    return fmt::format("{}\n fast: {}\n reference: {}", describe_call(call), got.values ? "a result" : got.refusal,
                       want.values ? "a result" : want.refusal);
  }
  if (!got.values) return {};
  if (!call.finite.empty()) return spread_wrongly(call, got, want);
  const double allowed = tolerance(call, {got.values->data(), got.values->size()});
  for (std::size_t i = 0; i < got.values->size(); ++i) {
    const Off off = off_by((*got.values)[i], (*want.values)[i], !call.op->elementwise(), tells_zeros(*call.op));
    if (!(off.by <= allowed))
      return fmt::format("{}, output {}: off by {}, {}", describe_call(call), i, off.by, off.where);
  }
  return {};
}

class RandomCalls : public ::testing::TestWithParam<int> {};

TEST_P(RandomCalls, GiveWhatTheReferenceGivesOrAreRefused) {
  std::vector<const OpDef*> ops;
  for (const auto* op : tested_ops(GetParam())) {
    if (op->cases && !op->comm) ops.push_back(op);
  }
  if (ops.empty()) GTEST_SKIP() << "no op of this shard is under test";
  Caller caller(20260u + static_cast<unsigned>(GetParam()));
  std::map<std::string, int> failures;
  int valid = 0, refused = 0;
  for (std::size_t turn = 0; valid + refused < kCalls; ++turn) {
    const OpDef& op = *ops[turn % ops.size()];
    const RandomCall call = caller.draw_call(op);
    if (!is_small(call)) continue;
    const Outcome got = run(call);
    const Outcome want = [&] {
      const kernels::ReferenceScope reference;
      return run(call);
    }();
    ++(got.values ? valid : refused);
    const std::string wrong = disagreement(call, got, want);
    constexpr int kMostShown = 3;  // of one op
    if (!wrong.empty() && failures[op.name]++ < kMostShown) ADD_FAILURE() << wrong;
  }
  const double share = 100.0 * valid / (valid + refused);
  std::printf("%d calls, %d valid and as the reference says (%.1f %%), %d refused\n", valid + refused, valid, share,
              refused);
  EXPECT_GE(share, 30);
}

INSTANTIATE_TEST_SUITE_P(Shard, RandomCalls, ::testing::Range(0, kShards));

}  // namespace
}  // namespace starling::testing

// Random fused programs against the same ops one by one.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "starling/base/parallel.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/fused.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {
namespace {

// A program and its operands' shapes. Values keep to a range that chains of any length leave meaningful.
class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) { draw_whole(); }

  FusedProgram program{};
  std::vector<Shape> shapes{};

  void build() {
    program.operands = 1 + below(4);
    for (int k = 0; k < program.operands; ++k) shapes.push_back(k == 0 ? whole_ : operand_shape());
    for (int k = 0; k < program.operands; ++k) full_.push_back(k);
    for (int k = 1; k < program.operands; ++k) {
      full_.push_back(program.operands + static_cast<int>(program.steps.size()));
      push("add", {0, k});  // so that the text names every operand
    }
    const int steps = 2 + below(10);
    for (int s = 0; s < steps; ++s) add_step();
    add_step(true);
    const int last = program.operands + static_cast<int>(program.steps.size()) - 1;
    for (int v = program.operands; v <= last; ++v) {
      const bool final = std::find(final_.begin(), final_.end(), v) != final_.end();
      if (v == last || final || below(5) == 0) program.outputs.push_back(v);
    }
  }

 private:
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }

  void draw_whole() {
    const std::int64_t sizes[] = {1, 2, 3, 5, 16, 17, 33, 64};
    const int rank = 1 + below(4);
    whole_ = Shape::filled(rank, 0);
    do {
      for (int d = 0; d < rank; ++d) whole_[d] = sizes[below(8)];
    } while (whole_.numel() > 20000);
    const std::int64_t wide[] = {257, 600, 1100, 3000};
    if (whole_.numel() < 60 && below(2) == 0) whole_[rank - 1] = wide[below(4)];
    if (below(12) == 0) whole_[below(rank)] = 0;
    // Reductions that later steps read are over these last axes, where none of them is broken by an operand.
    lead_ = rank - 1 - (rank > 1 && below(3) == 0 ? 1 : 0);
    for (int d = lead_; d < rank; ++d) any_zero_ = any_zero_ || whole_[d] == 0;
  }

  Shape operand_shape() {
    Shape shape = whole_;
    const bool rows = below(2) == 0;
    for (int d = 0; d < shape.rank(); ++d) {
      if (d < lead_ ? below(2) == 0 : rows) shape[d] = 1;
    }
    while (!shape.empty() && shape[0] == 1 && below(2) == 0) shape.erase(0);
    return shape;
  }

  int pick(const std::vector<int>& from) {
    return from[static_cast<std::size_t>(below(static_cast<int>(from.size())))];
  }

  void push(const char* op, std::vector<int> in, std::vector<double> attributes = {}) {
    program.steps.push_back({&find_op(op), std::move(in), std::move(attributes)});
  }

  void add_step(bool elementwise = false) {
    const int made = program.operands + static_cast<int>(program.steps.size());
    const int kind = elementwise ? below(4) : below(8);
    const char* const unary[] = {"tanh", "relu", "abs", "sin"};
    const char* const binary[] = {"add", "sub", "mul", "maximum"};
    if (kind == 0) return push(unary[below(4)], {pick(full_)}), full_.push_back(made);
    if (kind <= 3) {
      const bool of_row = !rows_.empty() && below(2) == 0;
      const int a = pick(full_), b = of_row ? pick(rows_) : pick(full_);
      // Nothing but operands that do not span the whole: still as wide as a value may be.
      const bool wide = a >= program.operands || a == 0;
      return push(binary[below(4)], {wide ? a : 0, b}), full_.push_back(made);
    }
    if (kind == 4 && !rows_.empty()) {
      return push(unary[below(4)], {pick(rows_)}), rows_.push_back(made);
    }
    if (kind == 5 && !rows_.empty() && below(2) == 0) {
      return push("broadcast_to", {pick(rows_)}), full_.push_back(made);
    }
    if (kind <= 6) {
      std::vector<double> axes;
      for (int d = lead_; d < whole_.rank(); ++d) axes.push_back(d);
      const char* const ops[] = {"mean", "sum", "max", "min"};
      push(ops[below(any_zero_ ? 2 : 4)], {pick(full_)}, axes);
      push("tanh", {made});
      return rows_.push_back(made), rows_.push_back(made + 1);
    }
    std::vector<double> axes;
    const bool tail = below(2) == 0;
    bool zero = false;
    for (int d = 0; d < whole_.rank(); ++d) {
      if (d < lead_ ? below(2) == 0 : tail) axes.push_back(d), zero = zero || whole_[d] == 0;
    }
    if (axes.empty()) axes.push_back(0), zero = whole_[0] == 0;
    if (lead_ == 0 && axes.size() < static_cast<std::size_t>(whole_.rank())) return;
    const char* const ops[] = {"sum", "mean", "prod", "max", "min"};
    push(ops[below(zero ? 3 : 5)], {pick(full_)}, axes);
    final_.push_back(made);
  }

  std::mt19937 engine_;
  Shape whole_{};
  int lead_ = 0;
  bool any_zero_ = false;
  std::vector<int> full_{}, rows_{}, final_{};
};

Tensor drawn(const Shape& shape, DType dtype, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(-1.2, 1.2);
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (auto& value : values) value = uniform(engine);
  return from_doubles(values, shape, dtype);
}

void expect_close(const Tensor& got, const Tensor& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.type(), want.type()) << what;
  const auto x = got.to_vector(), y = want.to_vector();
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(std::isnan(x[i]), std::isnan(y[i])) << what << " at " << i;
    if (std::isnan(x[i]) || x[i] == y[i]) continue;
    apart += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  ASSERT_LE(std::sqrt(apart), tolerance * std::max(std::sqrt(size), 1.0)) << what;
}

std::string kernel_of(const FusedProgram& program, std::span<const Tensor> in, int threads) {
  const Attrs attrs = op::FusedAttrs{Symbol(program.print())};
  std::vector<ArgDesc> args, out;
  for (const auto& x : in) args.push_back({x.dtype(), x.shape(), x.strides()});
  const Types types = types_of(in);
  for (const auto& type : infer(find_op("fused"), {types.data(), types.size()}, attrs)) out.push_back(dense(type));
  return plan_kernel(find_op("fused"), DeviceKind::cpu, attrs, args, out, {.threads = threads}).kernel;
}

TEST(FusedPrograms, DrawnAtRandomDoWhatTheirOpsDo) {
  const OpDef& op = find_op("fused");
  int fast = 0, all = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    Draw draw(seed);
    draw.build();
    const std::string text = draw.program.print();
    ASSERT_EQ(FusedProgram::parse(text).print(), text);
    const DType dtype = seed % 2 ? DType::f32 : DType::f64;
    std::vector<Tensor> in;
    for (std::size_t k = 0; k < draw.shapes.size(); ++k)
      in.push_back(drawn(draw.shapes[k], dtype, seed + static_cast<unsigned>(k)));
    std::string what = std::to_string(seed) + ": " + text;
    for (const auto& shape : draw.shapes) what += " " + to_string(shape);
    const TensorList want = op.decompose(in, op::FusedAttrs{Symbol(text)});
    for (int threads : {1, 3}) {
      const ThreadScope scope(threads);
      const TensorList got = fused(in, draw.program);
      for (std::size_t o = 0; o < got.size(); ++o)
        expect_close(got[o], want[o], dtype == DType::f32 ? 1e-5 : 1e-12, what + " output " + std::to_string(o));
      if (::testing::Test::HasFatalFailure()) return;
    }
    ++all;
    fast += kernel_of(draw.program, in, 3) == "chain";
  }
  EXPECT_GE(fast, all * 9 / 10) << "of " << all;
}

TEST(FusedPrograms, GiveTheSameBitsWheneverTheThreadsAreTheSame) {
  const FusedProgram program = FusedProgram::parse("t0=mul(a0,a0); t1=sum(t0,0,1); t2=sum(t0,0); o0=t1; o1=t2");
  const Tensor in[] = {drawn({700, 300}, DType::f32, 1)};
  for (int threads : {1, 2, 3}) {
    const ThreadScope scope(threads);
    const TensorList first = fused(in, program), again = fused(in, program);
    for (std::size_t o = 0; o < 2; ++o) EXPECT_EQ(first[o].to_vector(), again[o].to_vector());
  }
}

TEST(FusedPrograms, SumAsExactlyAsSumDoes) {
  // A float total of so many elements would be off in the third digit.
  const Tensor x = full({300000, 20}, 0.1, DType::f32);
  const Tensor in[] = {x};
  const TensorList got =
      fused(in, FusedProgram::parse("t0=neg(a0); t1=sum(t0,0); t2=sum(t0,0,1); o0=squeeze(t1,0); o1=squeeze(t2,0,1)"));
  const double each = -static_cast<double>(0.1f);
  for (double value : got[0].to_vector()) EXPECT_NEAR(value, 300000 * each, 3e-3);
  EXPECT_NEAR(got[1].to_vector()[0], 6000000 * each, 6e-2);
}

TEST(FusedPrograms, KeepNanInExtremes) {
  const Tensor in[] = {from_doubles(std::vector<double>{1, std::nan(""), 3, 4, 5, 6}, {2, 3}, DType::f32)};
  const TensorList got = fused(in, FusedProgram::parse("t0=neg(a0); t1=max(t0,1); o0=squeeze(t1,1)"));
  EXPECT_TRUE(std::isnan(got[0].to_vector()[0]));
  EXPECT_EQ(got[0].to_vector()[1], -4);
}

TEST(FusedPrograms, ReadViewsAsTheyLie) {
  const Tensor x = drawn({40, 50}, DType::f32, 3), y = drawn({50, 40}, DType::f32, 4);
  const FusedProgram program =
      FusedProgram::parse("t0=max(a0,1); t1=sub(a0,t0); t2=exp(t1); t3=mul(t2,a1); t4=sum(t3,0); o0=t3; o1=t4");
  const Tensor in[] = {transpose(x), y};
  EXPECT_EQ(kernel_of(program, in, 2), "chain");
  const TensorList got = fused(in, program),
                   want = find_op("fused").decompose(in, op::FusedAttrs{Symbol(program.print())});
  for (std::size_t o = 0; o < 2; ++o) expect_close(got[o], want[o], 1e-6, "view");
}

}  // namespace
}  // namespace starling::kernels

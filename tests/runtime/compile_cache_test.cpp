#include "runtime/control_testing.h"

namespace starling::runtime {
namespace {

using testing::message_of;

Tensor ones(std::int64_t n, DType dtype = DType::f32) { return full({n}, 1.0, dtype); }

// Counts how often it is traced, which is once a program.
struct Counted {
  int traces = 0;
  CompiledFunction f;
  explicit Counted(std::size_t cache)
      : f(
            [this](std::span<const Tensor> in) {
              ++traces;
              return TensorList{in[0] * 2.0};
            },
            {.cache = cache}) {}
  double operator()(const Tensor& x) {
    const TensorList out = f.call({&x, 1});
    return sum(cast(out[0], DType::f64)).item();
  }
};

TEST(CompileCache, AChangedSignatureCompilesAnotherProgram) {
  Counted f(16);
  EXPECT_EQ(f(ones(3)), 6);
  EXPECT_EQ(f(ones(3)), 6);
  EXPECT_EQ(f.f.programs(), 1u);
  EXPECT_EQ(f(ones(4)), 8);
  EXPECT_EQ(f(ones(4, DType::f64)), 8);
  EXPECT_EQ(f(full({4, 1}, 1.0)), 8);
  EXPECT_EQ(f.f.programs(), 4u);
  EXPECT_EQ(f.traces, 4);
  EXPECT_EQ(f(ones(3)), 6);
  EXPECT_EQ(f.traces, 4) << "the first program is still there";
}

TEST(CompileCache, KeepsAsManyProgramsAsItMayAndDropsTheOneUsedLeastRecently) {
  Counted f(2);
  f(ones(1));
  f(ones(2));
  f(ones(1));  // now 2 is the one not used for longest
  EXPECT_EQ(f.traces, 2);
  f(ones(3));  // drops 2
  EXPECT_EQ(f.f.programs(), 2u);
  f(ones(1));
  EXPECT_EQ(f.traces, 3) << "1 was used since and stays";
  f(ones(2));
  EXPECT_EQ(f.traces, 4) << "2 had gone";
  EXPECT_EQ(f.f.programs(), 2u);
  f(ones(3));
  EXPECT_EQ(f.traces, 5) << "3 went for 2";
}

TEST(CompileCache, HoldsAtLeastOneProgram) {
  EXPECT_NE(message_of([] { Counted f(0); }).find("[compile] expected a cache of at least one program, got 0"),
            std::string::npos);
}

}  // namespace
}  // namespace starling::runtime

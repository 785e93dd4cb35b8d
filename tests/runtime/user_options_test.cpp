#include "starling/runtime/user_options.h"

#include <gtest/gtest.h>

#include <tuple>

#include "starling/starling.h"

namespace starling::runtime {
namespace {

using graph::ProgramOptions;

// Every field of a program's options. A new one does not compile here until somebody hands it on, and tests it below.
auto fields_of(const ProgramOptions& options) {
  const auto& [disable, threads, reuse, reference, aliases, budget, branches, overlap, bucket, first] = options;
  return std::make_tuple(disable, threads, reuse, reference, aliases, budget, branches, overlap, bucket, first);
}

// Numbers of the fields that are equal in both.
template <std::size_t... I>
std::vector<std::size_t> equal_fields(const ProgramOptions& a, const ProgramOptions& b, std::index_sequence<I...>) {
  const auto left = fields_of(a), right = fields_of(b);
  std::vector<std::size_t> equal;
  ((std::get<I>(left) == std::get<I>(right) ? equal.push_back(I) : void()), ...);
  return equal;
}

CompileOptions unusual_compile_options() {
  return {.disable = {"fuse"},
          .reuse_memory = false,
          .reference_only = true,
          .check_aliases = !graph::checks_by_default(),
          .memory_budget = 1 << 20,
          .branches = 2,
          .overlap = false,
          .bucket_bytes = 3,
          .first_bucket_bytes = 2};
}

// Keeps what a program is built with.
class Recorder final : public Strategy {
 public:
  std::string name() const override { return "recorder"; }
  std::unique_ptr<Program> build(const graph::Graph& global, const Container& container,
                                 const BuildOptions& options) override {
    built = options.program;
    return SingleStrategy().build(global, container, {.arguments = options.arguments});
  }
  ProgramOptions built;
};

TEST(UserOptions, OfCompileReachTheProgramWithEveryField) {
  const ProgramOptions made = program_options(unusual_compile_options(), 7);
  EXPECT_TRUE(equal_fields(made, ProgramOptions{}, std::make_index_sequence<10>()).empty());
  EXPECT_EQ(made.disable, std::set<std::string>{"fuse"});
  EXPECT_EQ(made.threads, 7);
  EXPECT_EQ(made.memory_budget, 1U << 20);
  EXPECT_EQ(made.branches, 2);
  EXPECT_EQ(made.bucket_bytes, 3U);
  EXPECT_EQ(made.first_bucket_bytes, 2U);
}

TEST(UserOptions, OfCompileReachTheStrategy) {
  CompileOptions options = unusual_compile_options();
  const auto recorder = std::make_shared<Recorder>();
  options.strategy = recorder;
  options.threads = 7;
  compile([](const Tensor& x) { return x + x; }, options)(ones({2}));
  EXPECT_EQ(fields_of(recorder->built), fields_of(program_options(unusual_compile_options(), 7)));
}

TEST(UserOptions, OfASessionReachTheProgramButForThoseOfSeveralRanksAndLanes) {
  const SessionOptions options{
      .disable = {"fuse"}, .reuse_memory = false, .reference_only = true, .check_aliases = !graph::checks_by_default()};
  ProgramOptions expected = program_options(unusual_compile_options(), 7);
  const ProgramOptions usual;
  expected.memory_budget = usual.memory_budget;
  expected.branches = usual.branches;
  expected.overlap = usual.overlap;
  expected.bucket_bytes = usual.bucket_bytes;
  expected.first_bucket_bytes = usual.first_bucket_bytes;
  EXPECT_EQ(fields_of(program_options(options, 7)), fields_of(expected));
}

}  // namespace
}  // namespace starling::runtime

#include "starling/runtime/memory/alias_check.h"

#include <gtest/gtest.h>

#include "graph/passes_testing.h"
#include "runtime/step_testing.h"
#include "starling/graph/match.h"

namespace starling::runtime {

// Corrupts correct programs.
class ExecutableEditor {
 public:
  static std::vector<Instruction>& instructions(Executable& exe) { return exe.instructions_; }
};

namespace {

using testing::Bench;

Executable training_step(const std::string& net, bool reuse = true) {
  Bench bench(net, 4, DType::f32);
  const Tensor arguments[] = {bench.x, bench.y};
  const graph::Trace traced =
      graph::trace([&](std::span<const Tensor> in) { return TensorList{bench.step(in[0], in[1])}; }, arguments);
  return *Executable::build(run_passes(traced.graph, {}, {}).graph, {.reuse_memory = reuse});
}

// Two lanes, with state and communication between them.
Executable two_lanes() {
  graph::Graph graph = graph::graph_of(R"(variable 0 "w" f32[8, 8]
%0 = input {shape=[8, 8]}
%1 = variable {shape=[8, 8]}
%2 = matmul(%0, %1)
%3 = tanh(%2)
%4 = all_reduce(%2) lane=comm
%5 = matmul(%3, %1)
%6 = exp(%5)
%7 = all_reduce(%6) lane=comm
%8 = matmul(%6, %4)
%9 = add(%8, %7)
assign(%9)
%10 = matmul(%9, %3)
return %10)");
  return *Executable::build(std::move(graph), {.check_aliases = false});
}

std::string problem(const Executable& exe) {
  try {
    check_aliases(exe);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Counts small changes to a program that go unnoticed.
struct Tally {
  int tried = 0;
  std::string missed;
};

template <class Change>
void attempt(const Executable& exe, Tally& tally, const std::string& what, Change change) {
  Executable broken = exe;
  change(ExecutableEditor::instructions(broken));
  ++tally.tried;
  if (problem(broken).empty()) tally.missed += what + "\n";
}

// False for results that the program has no use for: where they lie matters to nobody.
bool is_used(const Executable& exe, const Instruction& instruction, std::size_t result) {
  const graph::Node& node = exe.graph().node(instruction.node);
  if (instruction.op != node.op->name) return true;
  const graph::Uses uses(exe.graph());
  return uses.is_output(node.out[result]) || !uses.of(node.out[result]).empty();
}

Tally move_every_operand(const Executable& exe, std::int64_t by) {
  Tally tally;
  const auto& instructions = exe.instructions();
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    for (std::size_t k = 0; k < instructions[i].in.size(); ++k)
      attempt(exe, tally, fmt::format("{} of instruction {} ({})", k, i, instructions[i].op),
              [&](auto& broken) { broken[i].in[k].offset += by; });
    for (std::size_t k = 0; k < instructions[i].out.size(); ++k) {
      if (!is_used(exe, instructions[i], k)) continue;
      attempt(exe, tally, fmt::format("result {} of instruction {} ({})", k, i, instructions[i].op),
              [&](auto& broken) { broken[i].out[k].offset += by; });
    }
  }
  return tally;
}

bool reads_result(const Instruction& reader, const Instruction& maker) {
  for (const auto& in : reader.in) {
    for (const auto& out : maker.out) {
      const bool same_space = in.kind == out.kind && (in.kind == Address::Kind::arena || in.index == out.index);
      if (same_space && in.offset == out.offset) return true;
    }
  }
  return false;
}

TEST(AliasCheck, TrainingProgramsAreProved) {
  for (const char* net : {"mlp", "lenet"}) {
    EXPECT_EQ(problem(training_step(net)), "") << net;
    EXPECT_EQ(problem(training_step(net, false)), "") << net << " without reuse";
  }
  EXPECT_EQ(problem(two_lanes()), "");
}

TEST(AliasCheck, AnyOperandThatIsMovedIsNoticed) {
  for (const Executable& exe : {training_step("lenet"), training_step("mlp"), two_lanes()}) {
    for (std::int64_t by : {64, -64, 4}) {
      const Tally tally = move_every_operand(exe, by);
      EXPECT_GT(tally.tried, 15);
      EXPECT_EQ(tally.missed, "") << "moved by " << by;
    }
  }
}

TEST(AliasCheck, InstructionsInTheWrongOrderAreNoticed) {
  for (const Executable& exe : {training_step("lenet"), training_step("mlp")}) {
    Tally tally;
    const auto& instructions = exe.instructions();
    for (std::size_t i = 0; i + 1 < instructions.size(); ++i) {
      if (!reads_result(instructions[i + 1], instructions[i])) continue;
      attempt(exe, tally, fmt::format("instructions {} and {}", i, i + 1),
              [&](auto& broken) { std::swap(broken[i], broken[i + 1]); });
    }
    EXPECT_GT(tally.tried, 5);
    EXPECT_EQ(tally.missed, "");
  }
}

TEST(AliasCheck, InstructionsThatAreMissingAreNoticed) {
  const Executable exe = training_step("lenet");
  Tally tally;
  for (std::size_t i = 0; i < exe.instructions().size(); ++i) {
    attempt(exe, tally, fmt::format("instruction {}", i),
            [&](auto& broken) { broken.erase(broken.begin() + static_cast<std::ptrdiff_t>(i)); });
  }
  EXPECT_EQ(tally.missed, "");
}

TEST(AliasCheck, EveryWaitIsNeeded) {
  const Executable exe = two_lanes();
  Tally tally;
  for (std::size_t i = 0; i < exe.instructions().size(); ++i) {
    for (std::size_t w = 0; w < exe.instructions()[i].waits.size(); ++w) {
      attempt(exe, tally, fmt::format("wait {} of instruction {} dropped", w, i),
              [&](auto& broken) { broken[i].waits.erase(broken[i].waits.begin() + static_cast<std::ptrdiff_t>(w)); });
      attempt(exe, tally, fmt::format("wait {} of instruction {} for ever", w, i),
              [&](auto& broken) { broken[i].waits[w].count += 100; });
    }
  }
  EXPECT_GE(tally.tried, 8);
  EXPECT_EQ(tally.missed, "");
}

TEST(AliasCheck, OperandsThatTheOpReadsLaterAreNotOverwritten) {
  Executable exe = two_lanes();
  auto& product = ExecutableEditor::instructions(exe)[0];
  ASSERT_EQ(product.op, "matmul");
  product.out[0] = product.in[1];  // the variable: not an input, so only the overlap is wrong
  EXPECT_NE(problem(exe).find("writes result 0 over operand 1"), std::string::npos) << problem(exe);
}

TEST(AliasCheck, InputsAndConstantsAreNeverWritten) {
  Executable exe = two_lanes();
  auto& product = ExecutableEditor::instructions(exe)[2];
  product.out[0] = {Address::Kind::input, 0, 0};
  EXPECT_NE(problem(exe).find("byte 0 of input 0, which is not the program's to write"), std::string::npos)
      << problem(exe);
}

TEST(AliasCheck, ScratchMayNotLieOnOperands) {
  Executable exe = training_step("lenet");
  for (auto& instruction : ExecutableEditor::instructions(exe)) {
    if (instruction.plan->scratch_bytes == 0 || instruction.out[0].kind != Address::Kind::arena) continue;
    instruction.scratch.offset = instruction.out[0].offset;
    EXPECT_NE(problem(exe).find("has scratch where an operand lies"), std::string::npos) << problem(exe);
    return;
  }
  FAIL() << "expected an instruction with scratch";
}

}  // namespace
}  // namespace starling::runtime

#include "starling/graph/parser.h"

#include <random>

#include "graph/passes_testing.h"
#include "starling/base/error.h"
#include "starling/ops/def/registry.h"

namespace starling::graph {
namespace {

const char* const kRich = R"(starling-graph 1
variable 0 "fc.weight" f32[5, 4]
variable 1 "fc.velocity" f32[5, 4]
variable 2 "lr" f32[]
constant 0 i64[2] {0, -9223372036854775808}
constant 1 f32[2, 2] {0.5, -inf, nan, 1e-30}
constant 2 bool[2] {0, 1}
constant 3 u8[0] {}
constant 4 f64[3] null
%0 = input {shape=[3, 4]} : f32[3, 4]<S0>
%1 = variable {shape=[5, 4]} : f32[5, 4]
%2 = variable {index=1, shape=[5, 4]} : f32[5, 4]
%3 = variable {index=2} : f32[]
%4 = constant {index=1, shape=[2, 2]} : f32[2, 2]
%5 = linear(%0, %1) {activation="relu"} @"net/\"fc\"" : f32[3, 5]<S0> "fc \"out\""
%6 = conv2d(%7, %7) {stride=[2, 1]} : f32[1, 1, 1, 1]
%8 = matmul(%5, %0) {trans_a=true} @"net" origin=%5 device=cuda:1 : f32[5, 4]<P(sum)>
%9 = all_reduce(%8) {name="fc \"w\", {x}"} origin=%5 after=(%5, %8) lane=comm : f32[5, 4]
%10, %11 = sgd_update(%1, %2, %9, %3) {momentum=0.9, weight_decay=0.0001} : f32[5, 4], f32[5, 4]
assign(%10)
assign(%11) {index=1} after=(#10)
init 1 %8
target "step" (#11, %9)
target "nothing" ()
return %5, %9
)";

// kRich with its operand of conv2d defined.
std::string rich() {
  std::string text = kRich;
  const std::string conv = "%6 = conv2d";
  return text.insert(text.find(conv), "%7 = full {shape=[1, 1, 1, 1], value=2.5} : f32[1, 1, 1, 1]\n");
}

std::string error_of(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Parser, ReadsBackWhatThePrinterWrote) {
  const std::string once = print(parse_graph(rich()));
  EXPECT_EQ(print(parse_graph(once)), once);
}

TEST(Parser, KeepsEveryFieldOfANode) {
  const Graph graph = parse_graph(rich());
  ASSERT_EQ(graph.size(), 13);
  const Node& node = graph.node(9);
  EXPECT_EQ(node.lane, Lane::comm);
  EXPECT_EQ(node.origin, 5);
  EXPECT_EQ(node.after, (SmallVector<NodeId, 2>{5, 8}));
  EXPECT_EQ(graph.node(8).scope.str(), "net");
  EXPECT_EQ(graph.node(8).device, (Device{DeviceKind::cuda, 1}));
  EXPECT_EQ(graph.value(graph.node(8).out[0]).layouts, Layouts{Layout::partial()});
  EXPECT_EQ(graph.inputs, std::vector<ValueId>{0});
  EXPECT_EQ(graph.variables[1].name, "fc.velocity");
  EXPECT_EQ(graph.constants[0].data<std::int64_t>()[1], std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(graph.value(graph.node(5).out[0]).name.str(), "fc \"out\"");
  EXPECT_EQ(graph.variables[1].init, graph.node(8).out[0]);
  EXPECT_EQ(graph.variables[0].init, -1);
  EXPECT_EQ(graph.targets.at("step"), (std::vector<NodeId>{11, 9}));
  EXPECT_TRUE(graph.targets.at("nothing").empty());
}

TEST(Parser, SaysLineExpectedAndGiven) {
  const auto graph = [](const std::string& body) { return error_of("starling-graph 1\n" + body); };
  EXPECT_EQ(error_of("starling-graph 2\nreturn\n"), "[graph] line 1: expected version 1, got 2");
  EXPECT_EQ(graph("%0 = input\n%1 = rellu(%0)\nreturn"), "[graph] line 3: expected the name of an op, got 'rellu'");
  EXPECT_EQ(graph("%0 = relu(%1)\nreturn"), "[graph] line 2: expected a value made above, got %1");
  EXPECT_EQ(graph("%0 = input {shape=[2]} : f32[3]\nreturn"),
            "[graph] line 2: expected f32[2] as inferred, got f32[3]");
  EXPECT_EQ(graph("%0, %1 = input\nreturn"), "[graph] line 2: expected names for 1 results, got 2");
  EXPECT_EQ(graph("%0 = input\n%0 = relu(%0)\nreturn"), "[graph] line 3: expected a new name, got %0 again");
  EXPECT_EQ(graph("constant 0 i8[2] {-128, 128}\nreturn"), "[graph] line 2: expected a value of i8, got '128'");
  EXPECT_EQ(graph("constant 0 u16[2] {-1, 0}\nreturn"), "[graph] line 2: expected a value of u16, got '-1'");
  EXPECT_EQ(graph("constant 0 u8[2] {1, 256}\nreturn"), "[graph] line 2: expected a value of u8, got '256'");
  EXPECT_EQ(graph("constant 0 f32[3] {1, 2}\nreturn"), "[graph] line 2: expected 3 values for f32[3], got 2");
  EXPECT_EQ(graph("variable 1 \"w\" f32[]\nreturn"), "[graph] line 2: expected variable 0, got 1");
  EXPECT_EQ(graph("%0 = input"), "[graph] line 2: expected 'return', got the end of the text");
  EXPECT_EQ(graph("%0 = input lane=fast\nreturn"), "[graph] line 2: expected lane compute or comm, got 'fast'");
  EXPECT_EQ(graph("%0 = ordered_sum\nreturn"), "[graph] line 2: expected operands of ordered_sum, got none");
  EXPECT_EQ(graph("%0 = input\ninit 0 %0\nreturn"), "[graph] line 3: expected the index of one of 0 variables, got 0");
  EXPECT_EQ(graph("%0 = input\ntarget \"a\" (%0)\ntarget \"a\" ()\nreturn"),
            "[graph] line 4: expected a new target, got 'a' again");
  EXPECT_EQ(graph("target \"a\" (%7)\nreturn"), "[graph] line 2: expected a value made above, got %7");
  EXPECT_EQ(graph("%0 = input {index=1}\nreturn"),
            "[graph] expected inputs numbered from 0 without gaps, got index 1 among 1");
  EXPECT_NE(graph("%0 = input\n%1 = matmul(%0, %0)\nreturn").find("line 3: [matmul] expected matrices"),
            std::string::npos);
}

TEST(Parser, AllocatesNothingForHugeConstantsThatAreNotThere) {
  EXPECT_NE(
      error_of("starling-graph 1\nconstant 0 f32[1000000000, 1000] {1}\nreturn").find("expected 1000000000000 values"),
      std::string::npos);
  EXPECT_NE(error_of("starling-graph 1\nconstant 0 f32[9223372036854775807, 9] {}\nreturn").find("can be addressed"),
            std::string::npos);
}

TEST(Parser, RefusesSizesThatWouldOverflow) {
  const auto graph = [](const std::string& call) {
    return error_of("starling-graph 1\n%0 = input {shape=[1, 1, 4, 4]}\n" + call + "\nreturn");
  };
  EXPECT_EQ(graph("%1 = reshape(%0) {shape=[4611686018427387904, 4]}"),
            "[graph] line 3: expected shape that can be addressed, got [4611686018427387904, 4]");
  EXPECT_EQ(graph("%1 = conv2d(%0, %0) {padding=[4611686018427387904, 1]}"),
            "[graph] line 3: expected padding of at most 2^31, got 4611686018427387904");
}

TEST(Parser, RefusesMoreThanItsLimits) {
  EXPECT_NE(error_of(std::string((64 << 20) + 1, ' ')).find("at most 67108864 bytes"), std::string::npos);
  // Nodes with twenty thousand results each.
  std::string results = "o0=a0";
  for (int i = 1; i < 20'000; ++i) results += fmt::format("; o{}=a0", i);
  std::string many = "starling-graph 1\n%x = input\n";
  for (int node = 0; node < 50; ++node) {
    for (int i = 0; i < 20'000; ++i) many += fmt::format("{}%{}_{}", i > 0 ? "," : "", node, i);
    many += " = fused(%x) {program=\"" + results + "\"}\n";
  }
  EXPECT_NE(error_of(many + "return").find("line 52: expected at most 1000000 values"), std::string::npos);
}

// Mutates bytes: changed, removed, duplicated or moved.
class Mutator {
 public:
  std::string operator()(std::string text) {
    const std::string seed = text;
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      const auto at = below(text.size());
      const auto length = below(std::min<std::size_t>(12, text.size() - at));
      switch (below(5)) {
        case 0: text[at] = static_cast<char>(below(256)); break;
        case 1: text.erase(at, length); break;
        case 2: text.insert(at, text.substr(below(text.size()), 12)); break;
        case 3: text[at] = seed[below(seed.size())]; break;
        default: text[at] = "0123456789-[]{}(),%"[below(19)];
      }
    }
    return text;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  std::mt19937 random_{7};
};

// True if the text parses to a graph; anything but a graph or an Error is a failure.
bool parses(const std::string& text) {
  try {
    parse_graph(text);
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(Parser, ThrowsOnlyErrorsOnMutatedText) {
  Mutator mutate;
  int parsed = 0;
  for (int round = 0; round < 6000; ++round) parsed += parses(mutate(rich()));
  EXPECT_GT(parsed, 0);
  EXPECT_LT(parsed, 6000);
}

Graph call_of(const OpDef& op, const OpCase& sample) {
  Graph graph;
  std::vector<ValueId> in;
  for (const auto& input : sample.in) in.push_back(graph.add_input({input.dtype, input.shape}));
  const auto& out = graph.node(graph.add(op, in, sample.attrs)).out;
  graph.outputs.assign(out.begin(), out.end());
  return graph;
}

TEST(Parser, ReadsBackTheSampleCallsOfEveryOpAndRefusesTheirMutationsOnlyByErrors) {
  Mutator mutate;
  for (const OpDef* op : op_registry().sorted()) {
    if (!op->cases) continue;
    for (const OpCase& sample : op->cases()) {
      const std::string text = print(call_of(*op, sample));
      EXPECT_EQ(print(parse_graph(text)), text);
      for (int round = 0; round < 40; ++round) parses(mutate(text));
    }
  }
}

}  // namespace
}  // namespace starling::graph

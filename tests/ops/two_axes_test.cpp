// Calls cut along two axes of a mesh, one after the other: every pair of ways in which an op's rule keeps operands
// split, through the partition pass and real exchanges. Operands are pieces of pieces, results are whole again.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "ops/op_checks.h"
#include "starling/dist/comm/comm_scope.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"
#include "starling/runtime/interpreter/graph_interpreter.h"

namespace starling::testing {
namespace {

constexpr int kParts = 2;  // along each axis
const char* const kAxes[] = {"a", "b"};

// A call as a graph whose operands are variables, so that they can be split along any dimension.
graph::Graph graph_of(const OpDef& op, std::span<const Tensor> operands, const Attrs& attrs) {
  graph::Graph graph;
  std::vector<graph::ValueId> in;
  for (std::size_t i = 0; i < operands.size(); ++i)
    in.push_back(graph.read(graph.add_variable({fmt::format("operand{}", i), operands[i].type(), {}, -1})));
  const graph::NodeId made = graph.add(op, in, attrs);
  for (graph::ValueId out : graph.node(made).out) graph.outputs.push_back(out);
  return graph;
}

graph::Graph cut(graph::Graph graph, const Layouts& layouts, int axis, int part) {
  for (graph::NodeId id = 0; id < graph.size(); ++id) {
    const graph::Node& node = graph.node(id);
    if (!graph::is_op(node, "variable")) continue;
    const Layout layout = layouts[static_cast<std::size_t>(graph::source_index(node))];
    if (layout.is_split()) graph.value(node.out[0]).layouts = {layout};
  }
  return graph::Partitioner(graph,
                            {.parts = kParts, .first = part, .group = Symbol(kAxes[axis]), .whole_results = true}, {})
      .run();
}

Tensor piece(const Tensor& whole, Layout layout, int part) {
  if (!layout.is_split()) return whole;
  const Piece own = piece_of(whole.shape()[layout.dim], part, kParts);
  return slice(whole, {.axis = layout.dim, .begin = own.begin, .end = own.begin + own.size});
}

// Layouts of operands that the op's rule computes on as they are, some of them split: one for each of its factors.
std::vector<Layouts> ways(const OpDef& op, std::span<const Tensor> operands, const TensorList& whole,
                          const Attrs& attrs) {
  Types in, out;
  for (const Tensor& operand : operands) in.push_back(operand.type());
  for (const Tensor& result : whole) out.push_back(result.type());
  std::vector<Layouts> found;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    for (int d = 0; d < operands[i].rank(); ++d) {
      Layouts given;
      given.resize(operands.size());
      given[i] = Layout::split(d);
      const ShardRule rule =
          op.shard({op, {in.data(), in.size()}, {out.data(), out.size()}, attrs, {given.data(), given.size()}});
      Layouts kept;
      bool splits = false;
      for (const Layout& layout : rule.in) {
        kept.push_back(layout.is_split() ? layout : Layout::replicate());
        splits |= layout.is_split();
      }
      const auto same = [&](const Layouts& other) { return std::equal(kept.begin(), kept.end(), other.begin()); };
      if (splits && std::none_of(found.begin(), found.end(), same)) found.push_back(kept);
    }
  }
  return found;
}

std::string told(const OpDef& op, const OpCase& sample, const Layouts& first, const Layouts& second) {
  std::string text = describe(op, sample);
  for (const Layouts* layouts : {&first, &second}) {
    text += layouts == &first ? " along a" : ", along b";
    for (const Layout& layout : *layouts) text += " " + to_string(layout);
  }
  return text;
}

struct Tried {
  int pairs = 0;
  std::vector<std::string> wrong{};
};

class PairsOfWays {
 public:
  explicit PairsOfWays(const OpDef& op) : op_(op) {
    for (const OpCase& sample : op.cases()) add(sample);
  }

  Tried run() {
    const auto comms = make_thread_comms(kParts * kParts, {.deadline = std::chrono::seconds(60)});
    const auto on_mesh = [&](Comm& comm) {
      const Mesh mesh(comm, {{kAxes[0], kParts}, {kAxes[1], kParts}});
      const CommScope scope(mesh);
      for (const Pair& pair : pairs_) compare(pair, mesh);
      comm.barrier().wait();
    };
    try {
      run_ranks(comms, on_mesh);
    } catch (const std::exception& error) {  // which ends the others
      tried_.wrong.push_back(fmt::format("{}: {}", op_.name, error.what()));
    }
    tried_.pairs = static_cast<int>(pairs_.size());
    return tried_;
  }

 private:
  struct Pair {
    const OpCase sample;
    std::shared_ptr<const Drawn> drawn;
    TensorList whole;
    Layouts first, second;
  };

  void add(const OpCase& sample) {
    const auto drawn = std::make_shared<const Drawn>(draw(sample, DType::f64));
    const TensorList whole = apply(op_, drawn->span(), sample.attrs);
    const std::vector<Layouts> all = ways(op_, drawn->span(), whole, sample.attrs);
    for (const Layouts& first : all) {
      for (const Layouts& second : all) pairs_.push_back({sample, drawn, whole, first, second});
    }
  }

  // All ranks have the whole result; each notes what it finds wrong.
  void compare(const Pair& pair, const Mesh& mesh) {
    try {
      const TensorList made = on_rank(pair, mesh);
      for (std::size_t o = 0; o < pair.whole.size(); ++o) {
        const double off = difference(made[o], pair.whole[o]);
        if (!(off <= 1e-11)) note(pair, fmt::format("output {} is off by {}", o, off));
      }
    } catch (const std::exception& error) {
      note(pair, error.what());
      throw;  // others wait for this rank
    }
  }

  TensorList on_rank(const Pair& pair, const Mesh& mesh) const {
    const int at[] = {mesh.coordinate(kAxes[0]), mesh.coordinate(kAxes[1])};
    graph::Graph local = graph_of(op_, pair.drawn->span(), pair.sample.attrs);
    local = cut(cut(std::move(local), pair.first, 0, at[0]), pair.second, 1, at[1]);
    Container own;
    for (std::size_t i = 0; i < pair.drawn->in.size(); ++i) {
      const Tensor part = piece(piece(pair.drawn->in[i], pair.first[i], at[0]), pair.second[i], at[1]);
      own.set(fmt::format("operand{}", i), from_doubles(part.to_vector(), part.shape(), part.dtype()));
    }
    return runtime::interpret(local, own, {});
  }

  void note(const Pair& pair, const std::string& what) {
    const std::lock_guard lock(mutex_);
    tried_.wrong.push_back(told(op_, pair.sample, pair.first, pair.second) + ": " + what);
  }

  const OpDef& op_;
  std::vector<Pair> pairs_;
  std::mutex mutex_;
  Tried tried_;
};

Tried tried_of(const OpDef& op) { return PairsOfWays(op).run(); }

// Ops whose results in pieces are another thing by design, or that only graphs can hold.
bool is_tried(const OpDef& op) {
  return op.shard && op.cases && !op.comm && !op.measure && !is_graph_only(op) && op.name != "batch_norm_train";
}

TEST(TwoAxes, PiecesOfPiecesMakeTheWhole) {
  int ops = 0, pairs = 0;
  for (const OpDef* op : tested_ops()) {
    if (!is_tried(*op)) continue;
    const Tried tried = tried_of(*op);
    for (const auto& wrong : tried.wrong) ADD_FAILURE() << wrong;
    ops += tried.pairs > 0, pairs += tried.pairs;
  }
  std::printf("%d pairs of layouts of %d ops over 2 x 2 ranks\n", pairs, ops);
  if (tested_ops().size() < 50) return;  // STARLING_OPS names a few
  EXPECT_GE(pairs, 7000);
}

// A rule that splits what is summed is seen.
TEST(TwoAxes, ControlAWrongRuleIsSeen) {
  OpDef softmax = find_op("softmax");
  softmax.shard = rules::shard_elementwise;
  EXPECT_FALSE(tried_of(softmax).wrong.empty());
  EXPECT_TRUE(tried_of(find_op("softmax")).wrong.empty());
}

}  // namespace
}  // namespace starling::testing

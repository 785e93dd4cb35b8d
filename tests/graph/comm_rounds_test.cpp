// Ranks that put the same program into different orders must not wait in a circle: schedules of two ranks are played
// against each other, lane by lane.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "graph/passes_testing.h"
#include "starling/graph/dependencies.h"

namespace starling::graph {
namespace {

// One rank that runs a scheduled graph: each lane runs its nodes one after the other. A communication has begun when
// its lane has come to it and its operands are there; it has ended when the other rank has begun it, too.
class Player {
 public:
  explicit Player(const Graph& graph) : graph_(graph), done_(graph.nodes().size()) {
    for (NodeId id = 0; id < graph.size(); ++id) lanes_[graph.node(id).lane].push_back(id);
  }

  // Goes on as far as it can, with what the other rank has begun; false if that is nowhere.
  bool advance(const Player& other) {
    bool moved = false;
    for (auto& [lane, nodes] : lanes_) {
      for (std::size_t& next = next_[lane]; next < nodes.size() && run(nodes[next], other, moved); ++next) moved = true;
    }
    return moved;
  }
  bool ended() const {
    return std::all_of(done_.begin(), done_.end(), [](bool done) { return done; });
  }

 private:
  bool run(NodeId id, const Player& other, bool& moved) {
    const Node& node = graph_.node(id);
    for (ValueId in : node.in) {
      if (!done_[static_cast<std::size_t>(graph_.value(in).node)]) return false;
    }
    if (node.op->comm) {
      const std::string group = comm_group(node).str();
      if (waits_[node.lane] != id) {
        waits_[node.lane] = id;
        ++begun_[group];
        moved = true;
      }
      const auto there = other.begun_.find(group);
      if (there == other.begun_.end() || there->second < begun_[group]) return false;
    }
    done_[static_cast<std::size_t>(id)] = true;
    return true;
  }

  const Graph& graph_;
  std::vector<bool> done_;
  std::map<Lane, std::vector<NodeId>> lanes_;
  std::map<Lane, std::size_t> next_;
  std::map<Lane, NodeId> waits_;
  std::map<std::string, int> begun_;
};

Graph scheduled(const std::string& text) { return run_pass("schedule", run_pass("fuse", graph_of(text))); }

bool come_to_their_end(const std::string& first, const std::string& second) {
  const Graph graphs[] = {scheduled(first), scheduled(second)};
  Player a(graphs[0]), b(graphs[1]);
  for (bool moved = true; moved;) {
    moved = a.advance(b);
    moved = b.advance(a) || moved;
  }
  return a.ended() && b.ended();
}

// Two chains that have nothing to do with each other, over groups of their own; which comes first is nobody's business.
// Were nodes ordered by the communication that stands before them in the text, each rank would wait in the chain that
// the other begins with.
TEST(CommRounds, TwoChainsInEitherOrderDoNotWaitInACircle) {
  const auto chain = [](const char* first, const char* second) {
    return fmt::format(R"(
%{0} = all_reduce(%x) {{group="{0}"}}
%{0}1 = tanh(%{0})
%{1} = all_reduce(%{0}1) {{group="{1}"}}
%{1}1 = tanh(%{1})
%{1}2 = all_reduce(%{1}1) {{group="{1}"}}
)",
                       first, second);
  };
  const std::string p = chain("r", "p"), q = chain("s", "q");
  const std::string head = "%x = input {index=0, shape=[4]}", tail = "return %p2, %q2\n";
  EXPECT_TRUE(come_to_their_end(head + p + q + tail, head + q + p + tail));
}

// A program of collectives in three groups, each of what earlier ones have brought, as lines that may be put into any
// order that keeps values before their uses and every group in its own order.
class Program {
 public:
  explicit Program(std::mt19937& dice) {
    for (int i = 0; i < 12; ++i) {
      const std::string group(1, "abc"[dice() % 3]);
      Line line{.group = group};
      std::string operand = "x";
      if (i > 0 && dice() % 4 != 0) {
        const int from = static_cast<int>(dice() % static_cast<unsigned>(i));
        const int with = static_cast<int>(dice() % static_cast<unsigned>(i));
        line.needs = {from, with};
        line.text = fmt::format("%t{0} = mul(%c{1}, %c{2})\n%u{0} = tanh(%t{0})\n", i, from, with);
        operand = fmt::format("u{}", i);
      }
      line.text += fmt::format("%c{} = all_reduce(%{}) {{group=\"{}\"}}\n", i, operand, group);
      lines_.push_back(line);
    }
  }

  std::string in_some_order(std::mt19937& dice) const {
    std::string text = "%x = input {index=0, shape=[4]}\n", outputs;
    std::vector<bool> told(lines_.size());
    for (std::size_t count = 0; count < lines_.size(); ++count) {
      std::vector<std::size_t> ready;
      for (std::size_t i = 0; i < lines_.size(); ++i) {
        if (!told[i] && may_follow(i, told)) ready.push_back(i);
      }
      const std::size_t one = ready[dice() % ready.size()];
      told[one] = true;
      text += lines_[one].text;
    }
    for (std::size_t i = 0; i < lines_.size(); ++i) outputs += fmt::format("{}%c{}", i == 0 ? "" : ", ", i);
    return text + "return " + outputs + "\n";
  }

 private:
  struct Line {
    std::string group, text{};
    std::vector<int> needs{};
  };

  bool may_follow(std::size_t line, const std::vector<bool>& told) const {
    for (std::size_t i = 0; i < line; ++i) {
      if (!told[i] && lines_[i].group == lines_[line].group) return false;
    }
    return std::all_of(lines_[line].needs.begin(), lines_[line].needs.end(),
                       [&](int need) { return told[static_cast<std::size_t>(need)]; });
  }

  std::vector<Line> lines_;
};

TEST(CommRounds, RandomProgramsInRandomOrdersDoNotWaitInACircle) {
  std::mt19937 dice(16);
  int different = 0;
  for (int i = 0; i < 300; ++i) {
    const Program program(dice);
    const std::string first = program.in_some_order(dice), second = program.in_some_order(dice);
    different += first != second ? 1 : 0;
    ASSERT_TRUE(come_to_their_end(first, second)) << "program " << i << "\n" << first << "\n" << second;
  }
  EXPECT_GT(different, 250);
}

}  // namespace
}  // namespace starling::graph

#include <gtest/gtest.h>

#include "starling/base/error.h"
#include "starling/graph/pass.h"

namespace starling::graph {
namespace {

Graph same(const Graph& graph, const PassContext&) { return graph; }

Graph never(const Graph&, const PassContext&) { fail("[never] expected not to be run"); }

TEST(PassOrder, IsTheOneThatTheFilesOfThePassesGive) {
  std::string order;
  for (const Pass& pass : all_passes()) {
    order += std::string(pass.name) + (pass.required ? "!\n" : "\n");
    EXPECT_FALSE(pass.doc.empty()) << pass.name;
  }
  EXPECT_EQ(order, R"(logical_shards!
shared_updates
partition!
prune
buckets
fold
simplify
cse
rejoin
bodies
attention
cross_entropy
scales
format
smaller_masks
fold_batch_norm
epilogues
norm_activation
scaled_updates
fuse
fused_optimizer
schedule
rematerialise
)");
}

TEST(PassTable, OrdersPassesByTheirPlace) {
  PassTable table;
  for (const auto& [name, order] : {std::pair{"c", 300}, {"a", 100}, {"b", 200}})
    table.add({.name = name, .doc = "", .order = order, .run = same});
  std::string names;
  for (const Pass& pass : table.in_order()) names += pass.name;
  EXPECT_EQ(names, "abc");
}

TEST(PassTable, RefusesASecondPassOfANameOrPlace) {
  PassTable table;
  table.add({.name = "one", .doc = "", .order = 100, .run = same});
  EXPECT_THROW(table.add({.name = "one", .doc = "", .order = 200, .run = same}), Error);
  EXPECT_THROW(table.add({.name = "two", .doc = "", .order = 100, .run = same}), Error);
}

TEST(Passes, RunIfRequiredThoughDisabled) {
  const Pass required[] = {{.name = "never", .doc = "", .required = true, .run = never}};
  EXPECT_THROW(run_passes({}, {}, {"never"}, required), Error);
  const Pass other[] = {{.name = "never", .doc = "", .run = never}};
  EXPECT_TRUE(run_passes({}, {}, {"never"}, other).reports[0].skipped);
}

}  // namespace
}  // namespace starling::graph

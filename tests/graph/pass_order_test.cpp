#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

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
pool_windows
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

// Rows of the table of docs/passes.md: name, and what the pass does.
std::vector<std::pair<std::string, std::string>> rows_of_page() {
  std::ifstream page(STARLING_SOURCE_FOLDER "/docs/passes.md");
  std::vector<std::pair<std::string, std::string>> rows;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `")) continue;
    const auto end = line.find("` | ", 3);
    rows.emplace_back(line.substr(3, end - 3), line.substr(end + 4));
  }
  return rows;
}

TEST(PassOrder, IsThatOfTheRowsOfThePageWhichBeginWithWhatEachPassSaysOfItself) {
  const auto rows = rows_of_page();
  const auto& passes = all_passes();
  ASSERT_EQ(rows.size(), passes.size()) << "docs/passes.md has a row for every pass";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [name, text] = rows[i];
    EXPECT_EQ(name, passes[i].name);
    EXPECT_TRUE(text.starts_with(passes[i].doc)) << name << ": expected " << passes[i].doc << ", got " << text;
    EXPECT_EQ(text.find("**required**") != std::string::npos, passes[i].required) << name;
  }
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

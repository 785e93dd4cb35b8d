#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "starling/dist/comm/comm.h"
#include "starling/train/workers/direct_line.h"

namespace starling::train {

struct GroupLineOptions {
  int group = 0;
  std::shared_ptr<DirectLine> leader{};  // of member 0; others use theirs for signs of life alone
  std::shared_ptr<Comm> asks{};          // of the members, for the loaders' threads
  std::shared_ptr<Comm> tells{};         // of the members, for the training threads
};

// Line of a member of a group of workers that is one worker to its leader. Member 0 asks and tells for all, who hear
// each answer from it: of portion g of a batch cut for groups, member m makes piece m. An error of one member, or its
// death, ends its group and nothing else.
class GroupLine final : public LeaderLine {
 public:
  explicit GroupLine(GroupLineOptions options);
  ~GroupLine() override;

  int worker() const override { return options_.group * members() + member(); }
  std::optional<RunStart> join(const std::vector<Tensor>& like) override;
  std::optional<std::int64_t> next(const std::atomic<bool>& stop) override;
  std::int64_t told_as(std::int64_t portion) const override { return portion / members(); }
  Terms terms(std::int64_t portion) override;
  bool wanted(std::int64_t portion) override;
  PortionAnswer::Kind why() override;

  PortionNote whole(const PortionNote& note) override;
  bool done(const PortionNote& note) override;
  void show(const std::vector<Tensor>& buffers) override;
  void settled() override;
  void leave(const std::string& counters) override;
  void failed(const std::string& why) override;

 private:
  int member() const { return options_.tells->rank(); }
  int members() const { return options_.tells->size(); }
  bool leads() const { return member() == 0; }
  void part(const std::string& why);

  GroupLineOptions options_;
  std::mutex mutex_;
  std::map<std::int64_t, Terms> terms_;      // by the leader's numbers
  std::deque<PortionAnswer::Kind> reasons_;  // of null batches that are not taken yet
  bool ended_ = false;                       // the loaders have heard of the end
};

}  // namespace starling::train

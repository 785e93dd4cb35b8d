#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "starling/dist/strategy/servers/server_rule.h"
#include "starling/train/run/summary.h"
#include "starling/train/workers/leader_service.h"
#include "starling/train/workers/procedure_run.h"
#include "starling/train/workers/served_model.h"
#include "starling/train/workers/shared_buffers.h"

namespace starling::train {

struct WorkerPoolOptions {
  std::string strategy{};  // name of the strategy
  dist::ServerRule rule{};
  int workers = 1;  // or groups of several members
  int members = 1;
  std::shared_ptr<dist::ps::Wire> wire{};
  std::string address{};                        // address that the leader listens on
  std::chrono::milliseconds heartbeat{2000};    // of workers; 0: none is watched
  std::chrono::milliseconds deadline{300'000};  // for any progress of a run whose workers live
  std::function<bool()> stop{};                 // polled while waiting for workers; true: throws Error; null: never
  std::shared_ptr<SharedBuffers> buffers{};     // of the model: those of the first worker that is left
  // Connects the leader with the servers of a model, once its tensors are known.
  std::function<std::unique_ptr<dist::ps::Client>(const dist::TrainedState&)> connect{};
};

// Workers that train by themselves, as the leader of their run sees them. The leader computes nothing: it hands out
// portions, adds up what workers tell, and takes the model from the servers to evaluate and to save it. Nothing here is
// collective. One thread, except for what the service does on its own.
class WorkerPool {
 public:
  explicit WorkerPool(WorkerPoolOptions options);
  ~WorkerPool();  // as close()

  const std::string& strategy() const { return options_.strategy; }
  const char* unit() const { return options_.members > 1 ? "group" : "worker"; }  // that has portions, in messages
  int workers() const { return options_.workers; }
  // True if a step is an iteration of a procedure over all samples, whatever the batch.
  bool has_procedure() const { return options_.rule.procedure.has_value(); }
  const std::string& address() const { return service_.address(); }

  struct Start {
    data::PortionGrid::Options grid{};                // pieces: ignored; as many as workers
    std::int64_t epochs = 0;                          // of the whole run
    std::int64_t steps = 0;                           // still to make at most; 0: no limit
    std::function<double(std::int64_t step)> rate{};  // learning rate, steps counted from here
    dist::TrainedState state{};
  };
  void begin(const Start& start);

  struct Step {
    PortionStep sum{};
    data::DataPosition position{};  // behind the step's batch
    std::int64_t samples = 0;       // of the batch, or of all evaluations
    bool begins_epoch = false;
    bool last = false;  // the procedure has nothing to gain any more
  };
  // Next step, once all its portions are done; nullopt: it is not complete within the time of a progress line. Throws
  // when a worker is lost that the strategy cannot do without, or the last one. `leave` is polled within an iteration
  // of a procedure, which may be many passes over the data; true: it is left, the weights are as before it, and no step
  // follows.
  std::optional<Step> step(const std::function<bool()>& leave = {});
  // Lets portions of the data before this epoch be handed out, and no further ones.
  void allow(std::int64_t epoch);
  // True if complete steps have not been taken.
  bool behind();

  // Brings all workers to a halt after the step begun; what they did is on the servers then.
  void pause();
  void resume() { queue_.resume(); }
  // Copies the model from the servers into tensors of these names: weights alone if no optimizer state is given.
  void fetch(const dist::TrainedState& state);
  // The worker has ended early, for a reason that it may not have told itself. Any thread.
  void lose(int worker, const std::string& why) { queue_.lose(worker, why); }
  // Hands out no more portions: every worker that asks is told that the run is over, and the rate of begin() is not
  // called any more.
  void end() { queue_.finish(); }
  // Tells the workers and then the servers that the run is over, however it ended. Waits some seconds for the workers.
  void close();
  // Ends the run; returns what each worker has told, the servers' counters beside those of the first worker.
  std::vector<RankSummary> finish();

  dist::ps::Counters server_counters() { return model_->counters(); }  // sums over the servers; asks them
  std::vector<RankStats> stats() const { return queue_.stats(); }
  std::vector<std::string> take_notes();  // for the user: workers that were lost
  template <class F>
  void locked(F&& f) {
    queue_.locked(std::forward<F>(f));
  }

 private:
  void begin_procedure(const data::PortionGrid::Options& grid);
  std::optional<Step> iterate(const std::function<bool()>& leave);
  void notice_losses();
  bool stopped() const { return options_.stop && options_.stop(); }
  void let_go();
  void say_farewell();

  WorkerPoolOptions options_;
  PortionQueue queue_;
  LeaderService service_;
  std::unique_ptr<ServedModel> model_;
  data::PortionGrid grid_;
  std::optional<ProcedureRun> procedure_;
  std::int64_t first_epoch_ = 0;                   // of the procedure
  std::int64_t taken_ = 0;                         // steps
  std::chrono::steady_clock::time_point moved_{};  // last progress
  std::int64_t moved_at_ = -1;
  std::vector<std::string> notes_;
  bool closed_ = false;
};

}  // namespace starling::train

#include "starling/runtime/execution/instance.h"

#include "starling/base/parallel.h"
#include "starling/ops/def/scopes/comm_world.h"
#include "starling/runtime/execution/runner.h"

namespace starling::runtime {
namespace {

// Variables count as written from here on, also if the run fails.
class BumpVersions {
 public:
  explicit BumpVersions(const BoundProgram& program) : program_(program) {}
  ~BumpVersions() { program_.bump_versions(); }
  BumpVersions(const BumpVersions&) = delete;
  BumpVersions& operator=(const BumpVersions&) = delete;

 private:
  const BoundProgram& program_;
};

}  // namespace

Instance::Instance(std::shared_ptr<const Executable> executable, const Container& container,
                   const InstanceOptions& options)
    : program_(std::move(executable), container, options), runner_(make_runner(program_)) {
  if (options.comm) {
    program_.set_world({options.comm, options.rank, 0, options.groups});
  } else if (current_world().comm) {
    program_.set_world(current_world());
  }
}

Instance::~Instance() = default;

void Instance::run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  program_.put_operands(inputs, outputs);
  if (!program_.options().comm) program_.set_world(current_world());
  const BumpVersions written(program_);
  const bool recorded = executable().device().kind == DeviceKind::cuda && !program_.options().part;
  if (recorded || executable().threads() == num_threads()) return runner_->run();
  const ThreadScope threads(executable().threads());
  runner_->run();
}

}  // namespace starling::runtime

#include "starling/runtime/execution/lanes.h"
#include "starling/runtime/execution/runner.h"

namespace starling::runtime {
namespace {

class LanesRunner final : public Runner {
 public:
  explicit LanesRunner(BoundProgram& program) : lanes_(program) {}

  void run() override {
    lanes_.begin();
    try {
      lanes_.run(0);
    } catch (...) {
      lanes_.wait_quietly();
      throw;
    }
    lanes_.finish();
  }

 private:
  Lanes lanes_;
};

}  // namespace

std::unique_ptr<Runner> make_lanes_runner(BoundProgram& program) { return std::make_unique<LanesRunner>(program); }

}  // namespace starling::runtime

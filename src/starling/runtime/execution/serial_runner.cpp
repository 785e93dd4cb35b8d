#include "starling/base/error.h"
#include "starling/base/thread/stop_request.h"
#include "starling/runtime/execution/runner.h"
#include "starling/runtime/placed/rendezvous.h"

namespace starling::runtime {
namespace {

class SerialRunner final : public Runner {
 public:
  explicit SerialRunner(BoundProgram& program) : program_(program) {}
  void run() override {
    for (const auto& step : program_.lanes()[0]) {
      check_stop_request();
      program_.run(step);
    }
  }

 private:
  BoundProgram& program_;
};

class PartRunner final : public Runner {
 public:
  explicit PartRunner(BoundProgram& program) : program_(program) {}

  // Stops at the failing instruction and names it; Cancelled passes through, since the failing device reports the
  // cause.
  void run() override {
    const Executable& exe = program_.executable();
    const Instruction* now = nullptr;
    try {
      for (const auto& step : program_.lanes()[0]) {
        now = step.instruction;
        program_.run(step);
      }
    } catch (const Cancelled&) {
      throw;
    } catch (const std::exception& error) {
      const auto& scope = exe.graph().node(now->node).scope.str();
      fail("[placed] expected {} to run {}{}, got: {}", to_string(exe.device()), now->op,
           scope.empty() ? "" : " (in " + scope + ")", error.what());
    }
  }

 private:
  BoundProgram& program_;
};

}  // namespace

std::unique_ptr<Runner> make_serial_runner(BoundProgram& program) { return std::make_unique<SerialRunner>(program); }
std::unique_ptr<Runner> make_part_runner(BoundProgram& program) { return std::make_unique<PartRunner>(program); }

}  // namespace starling::runtime

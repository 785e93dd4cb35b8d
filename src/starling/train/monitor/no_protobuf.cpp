#include "starling/train/monitor/event_writer.h"

namespace starling::train {
namespace {

constexpr const char* kMissing =
    "[monitor] expected a build with protobuf (libprotobuf-dev, protobuf-compiler) for TensorBoard's event files, got "
    "one without";

}  // namespace

bool has_event_writer() { return false; }

struct EventWriter::State {};

Result<EventWriter> EventWriter::create(const std::filesystem::path&, EventWriterOptions) { fail("{}", kMissing); }
EventWriter::EventWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
EventWriter::EventWriter(EventWriter&&) noexcept = default;
EventWriter& EventWriter::operator=(EventWriter&&) noexcept = default;
EventWriter::~EventWriter() = default;

Result<void> EventWriter::scalars(std::int64_t, std::span<const Scalar>) { fail("{}", kMissing); }
Result<void> EventWriter::scalar(std::int64_t, const std::string&, double) { fail("{}", kMissing); }
Result<void> EventWriter::histogram(std::int64_t, const std::string&, const Histogram&) { fail("{}", kMissing); }
Result<void> EventWriter::image(std::int64_t, const std::string&, const Picture&) { fail("{}", kMissing); }
Result<void> EventWriter::text(std::int64_t, const std::string&, const std::string&) { fail("{}", kMissing); }
Result<void> EventWriter::graph(const graph::Graph&) { fail("{}", kMissing); }
Result<void> EventWriter::begin_session(const HyperParameters&, const std::vector<std::string>&) {
  fail("{}", kMissing);
}
Result<void> EventWriter::end_session(SessionEnd) { fail("{}", kMissing); }
const std::filesystem::path& EventWriter::path() const { fail("{}", kMissing); }

}  // namespace starling::train

#include "history_lines.h"

#include <algorithm>
#include <thread>
#include <unordered_set>
#include <utility>

#include "starling/autograd/grad_node.h"
#include "user_line.h"

namespace starling::python {
namespace {

struct Note {
  std::uint64_t sequence = 0;  // of the node that made the tensor; all nodes of one process are numbered
  std::thread::id thread{};
  PyObject* file = nullptr;  // owned
  int line = 0;
};

// The newest notes, in a ring. Never freed: objects may end after everything else.
class Ring {
 public:
  void add(Note note) {
    Note& oldest = notes_[next_++ % kNotes];
    PyObject* const dropped = std::exchange(oldest, note).file;
    Py_XDECREF(dropped);
  }

  // The line at which a node of this thread came into being: that of the first note at or after it.
  std::string line_of(std::uint64_t sequence) const {
    const auto thread = std::this_thread::get_id();
    const Note* best = nullptr;
    for (std::uint64_t i = next_ > kNotes ? next_ - kNotes : 0; i < next_; ++i) {
      const Note& note = notes_[i % kNotes];
      if (note.thread != thread || note.sequence < sequence) continue;
      if (!best || note.sequence < best->sequence) best = &note;  // the earliest of those for one node
    }
    return best ? text_of({nb::borrow(best->file), best->line}) : std::string();
  }

 private:
  static constexpr std::uint64_t kNotes = 8192;
  std::vector<Note> notes_ = std::vector<Note>(kNotes);
  std::uint64_t next_ = 0;
};

Ring& ring() {
  static auto* const notes = new Ring;
  return *notes;
}

const GradNode* maker_of(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.impl()->extra) return nullptr;
  return static_cast<const GradNode*>(tensor.impl()->extra->node.get());
}

// Numbers of the nodes of an op behind these tensors, newest first.
std::vector<std::uint64_t> nodes_behind(std::span<const Tensor> tensors, std::string_view op) {
  std::vector<const GradNode*> open;
  std::unordered_set<const GradNode*> seen;
  const auto meet = [&](const GradNode* node) {
    if (node && seen.insert(node).second) open.push_back(node);
  };
  for (const Tensor& tensor : tensors) meet(maker_of(tensor));
  std::vector<std::uint64_t> found;
  while (!open.empty()) {
    const GradNode& node = *open.back();
    open.pop_back();
    if (is_meant(node.op().name, op)) found.push_back(node.sequence());
    for (const auto& edge : node.edges()) meet(edge.node.get());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

}  // namespace

void note_history(const Tensor& made) {
  const GradNode* const node = maker_of(made);
  if (!node || made.traced()) return;
  PyLine line = line_under_way();
  if (!line.file.is_valid()) return;
  ring().add({node->sequence(), std::this_thread::get_id(), line.file.release().ptr(), line.number});
}

std::vector<std::string> lines_of_history(std::span<const Tensor> tensors, std::string_view op) {
  std::vector<std::string> lines;
  for (const std::uint64_t sequence : nodes_behind(tensors, op)) {
    std::string line = ring().line_of(sequence);
    if (!line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace starling::python

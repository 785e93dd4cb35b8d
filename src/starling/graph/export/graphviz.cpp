#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "starling/graph/export/dot.h"
#include "starling/graph/export/svg.h"

namespace starling::graph {
namespace {

// Temporary file for a child process.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& text) {
    std::string name = (std::filesystem::temp_directory_path() / "starling-dot-XXXXXX").string();
    const int fd = mkstemp(name.data());
    if (fd < 0) return;
    close(fd);
    path_ = name;
    std::ofstream(path_) << text;
  }
  ~ScratchFile() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(path_, ignored);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

std::optional<std::string> to_svg_by_graphviz(const Graph& graph, const std::string& title) {
  const ScratchFile file(to_dot(graph, title));
  if (file.path().empty() || file.path().string().find('\'') != std::string::npos) return std::nullopt;
  // `dot` can take hours for graphs of a few hundred nodes with many boxes.
  const std::string command = "timeout 20 dot -Tsvg '" + file.path().string() + "' 2>/dev/null";
  std::FILE* pipe = popen(command.c_str(), "r");  // NOLINT(cert-env33-c): the path is ours
  if (pipe == nullptr) return std::nullopt;
  std::string svg;
  std::array<char, 4096> piece{};
  for (std::size_t got = 0; (got = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;) svg.append(piece.data(), got);
  if (pclose(pipe) != 0 || svg.find("<svg") == std::string::npos) return std::nullopt;
  return svg;
}

}  // namespace starling::graph

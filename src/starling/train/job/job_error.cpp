#include "starling/train/job/job_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "starling/base/error_text.h"

namespace starling::train {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// "a/job.yaml" of "a/job.yaml:3:7"; empty if the place is no line of a file.
std::string file_of(const std::string& where) {
  std::string file = where;
  for (int part = 0; part < 2; ++part) {
    const auto colon = file.rfind(':');
    if (colon == std::string::npos || !is_number(std::string_view(file).substr(colon + 1))) return "";
    file.resize(colon);
  }
  return file;
}

std::optional<ConfigNode> entry(const ConfigNode& node, const std::string& key) {
  if (node.is_map()) return node.find(key);
  if (!node.is_list() || !is_number(key)) return std::nullopt;
  const auto items = node.as_list();
  const auto index = static_cast<std::size_t>(std::stoul(key));
  return index < items.size() ? std::optional(items[index]) : std::nullopt;
}

}  // namespace

std::string job_name(const ConfigNode& top) {
  const std::string name = std::filesystem::path(file_of(top.where())).stem().string();
  return name.empty() ? "job" : name;
}

std::string job_place(const Job& job, const std::string& path) {
  if (!job.source) return "";
  ConfigNode node = *job.source;
  std::string rest = path;
  while (!rest.empty()) {
    const auto dot = rest.find('.');
    const auto below = entry(node, rest.substr(0, dot));
    if (!below) break;
    node = *below;
    rest = dot == std::string::npos ? "" : rest.substr(dot + 1);
  }
  const std::string file = file_of(node.where());
  return node.path().empty() && !file.empty() ? file : node.where();
}

std::string placed(const Job& job, const std::string& path, const std::string& message) {
  const std::string place = job_place(job, path);
  return place.empty() ? message : fmt::format("{}: {}", place, message);
}

void refuse_job(const Job& job, const std::string& path, const std::string& message) {
  throw JobError(path, placed(job, path, without_rank(message)));
}

}  // namespace starling::train

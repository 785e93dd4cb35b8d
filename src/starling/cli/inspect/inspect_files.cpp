#include "starling/cli/inspect/inspect_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "starling/base/bytes.h"
#include "starling/base/file/file.h"
#include "starling/cli/cli.h"
#include "starling/cli/terminal/fit_table.h"
#include "starling/cli/terminal/help_width.h"
#include "starling/data/formats/csv.h"
#include "starling/data/formats/image.h"
#include "starling/data/formats/text.h"
#include "starling/data/records/csv_table.h"
#include "starling/train/runs/text_table.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostWords = 1000;  // different words of a column that are counted
constexpr std::size_t kShownWords = 5;
constexpr std::size_t kLookedAt = 200;  // pictures whose sizes are read
constexpr std::size_t kMostKinds = 20;  // endings of other files that are listed

std::string ending(const fs::path& path) {
  std::string text = path.extension().string();
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

struct Column {
  std::int64_t numbers = 0, missing = 0, words = 0;
  double low = INFINITY, high = -INFINITY, sum = 0;
  std::map<std::string, std::int64_t, std::less<>> counts{};  // of all cells, until there are too many

  void add(std::string_view cell) {
    double value = 0;
    static const data::CsvSchema kAsRead;  // the words that stand for a missing value when a table is read
    if (kAsRead.is_missing(cell)) {
      ++missing;
      return;
    }
    if (data::parse_number(cell, value)) {
      ++numbers;
      low = std::min(low, value);
      high = std::max(high, value);
      sum += value;
    } else {
      ++words;
    }
    const auto found = counts.find(cell);
    if (found != counts.end()) {
      ++found->second;
    } else if (counts.size() <= kMostWords) {
      counts.emplace(std::string(cell), 1);
    }
  }
  std::string different() const {
    return counts.size() > kMostWords ? fmt::format("over {}", kMostWords) : std::to_string(counts.size());
  }
  std::string told() const {
    if (words == 0 && numbers > 0)
      return fmt::format("{:.6g} to {:.6g}, mean {:.6g}", low, high, sum / static_cast<double>(numbers));
    std::vector<std::pair<std::int64_t, std::string>> most;
    for (const auto& [word, count] : counts) most.emplace_back(-count, word);
    std::sort(most.begin(), most.end());
    std::string text;
    for (std::size_t i = 0; i < std::min(kShownWords, most.size()); ++i)
      text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", most[i].second.substr(0, 30), -most[i].first);
    return text + (most.size() > kShownWords ? ", …" : "");
  }
};

char separator_of(const fs::path& file) {
  const auto lines = data::open_lines(file, 0);
  const data::Record* first = lines->next();
  const std::string line(first == nullptr ? "" : as_text(first->parts[0].bytes));
  return std::count(line.begin(), line.end(), '\t') > std::count(line.begin(), line.end(), ',') ? '\t' : ',';
}

struct PictureSizes {
  std::map<std::string, std::int64_t> sizes{};
  std::vector<std::string> unreadable{};
};

std::string size_text(const data::Image& image) { return fmt::format("{} × {}", image.width, image.height); }

data::Image read_picture(const fs::path& file) {
  const auto mapped = MappedFile::map(file).value();
  return data::decode_image(mapped->bytes(), file.string());
}

}  // namespace

bool is_picture_file(const fs::path& file) {
  const std::string name = ending(file);
  return name == ".jpg" || name == ".jpeg" || name == ".png";
}

std::string describe_csv(const fs::path& file, std::int64_t limit) {
  data::CsvReader reader = data::CsvReader::open(file, {.separator = separator_of(file)});
  std::vector<Column> columns(reader.columns().size());
  std::int64_t rows = 0;
  while (limit == 0 || rows < limit) {
    const auto* cells = reader.next();
    if (cells == nullptr) break;
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i].add((*cells)[i]);
    ++rows;
  }
  train::TextTable table{.head = {"column", "kind", "different", "missing", "values"},
                         .right = {false, false, true, true, false}};
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const Column& column = columns[i];
    const bool words = column.words > 0, numbers = column.numbers > 0;
    const char* kind = words && numbers ? "mixed" : words ? "words" : numbers ? "numbers" : "nothing";
    table.rows.push_back(
        {reader.columns()[i], kind, column.different(), std::to_string(column.missing), column.told()});
  }
  return fit_table(table, help_columns(), {4}) +
         fmt::format("{} rows of {} columns{}\n", rows, columns.size(),
                     limit > 0 && rows == limit ? ", as far as --limit lets it read" : "");
}

std::string describe_picture(const fs::path& file) {
  const data::Image image = read_picture(file);
  const auto share = [&](int channel) {
    double sum = 0;
    for (std::size_t i = static_cast<std::size_t>(channel); i < image.pixels.size(); i += 3) sum += image.pixels[i];
    const std::size_t pixels = image.pixels.size() / 3;
    return sum / std::max<double>(1, static_cast<double>(pixels));
  };
  return fmt::format("{}: {} pixels, mean red {:.1f}, green {:.1f}, blue {:.1f} of 255\n", file.string(),
                     size_text(image), share(0), share(1), share(2));
}

std::string describe_folder(const fs::path& folder) {
  std::map<std::string, std::int64_t> classes, others;
  std::vector<fs::path> pictures;
  std::vector<std::string> empty;
  for (const auto& entry : fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied)) {
    std::error_code unreadable;
    if (entry.is_directory() && fs::is_empty(entry, unreadable) && !unreadable)
      empty.push_back(entry.path().lexically_relative(folder).string());
    if (!entry.is_regular_file()) continue;
    if (!is_picture_file(entry.path())) {
      ++others[ending(entry.path())];
      continue;
    }
    pictures.push_back(entry.path());
    ++classes[entry.path().parent_path().lexically_relative(folder).string()];
  }
  if (pictures.empty() && others.empty())
    throw UsageError(fmt::format("[inspect] expected a folder with files, got {}, which has none", folder.string()));
  std::string text;
  if (!pictures.empty()) {
    train::TextTable table{.head = {"folder", "pictures"}, .right = {false, true}};
    for (const auto& [name, count] : classes)
      table.rows.push_back({name == "." ? "(itself)" : name, std::to_string(count)});
    std::sort(empty.begin(), empty.end());
    for (const auto& name : empty) table.rows.push_back({name, "0, empty: no class"});
    text += to_text(table);
    std::sort(pictures.begin(), pictures.end());
    PictureSizes found;
    const std::size_t looked = std::min(kLookedAt, pictures.size());
    for (std::size_t i = 0; i < looked; ++i) {  // spread over all of them
      const fs::path& file = pictures[i * pictures.size() / looked];
      const auto size = attempt([&] { return size_text(read_picture(file)); });
      if (size) {
        ++found.sizes[*size];
      } else {
        found.unreadable.push_back(size.error());
      }
    }
    std::string sizes;
    std::size_t shown = 0;
    for (const auto& [size, count] : found.sizes) {
      if (shown++ < kShownWords) sizes += fmt::format("{}{} ({})", sizes.empty() ? "" : ", ", size, count);
    }
    text += fmt::format("{} pictures; width × height of {}: {}{}\n", pictures.size(),
                        looked == pictures.size() ? "all" : fmt::format("{} of them", looked), sizes,
                        found.sizes.size() > kShownWords ? ", …" : "");
    for (const auto& why : found.unreadable) text += fmt::format("not readable: {}\n", why);
  }
  std::size_t kinds = 0;
  for (const auto& [name, count] : others) {
    if (kinds++ < kMostKinds)
      text += fmt::format("{} other files {}\n", count, name.empty() ? "without an ending" : name);
  }
  return text;
}

}  // namespace starling::cli

#pragma once

#include <filesystem>
#include <string>

namespace starling::cli {

// Contents of a CSV file: a row for each column with its kind, range or most frequent words, and how many cells are
// empty. Reads at most `limit` rows; 0: all. Cells are separated by tabs if the first line has more of them than
// commas.
std::string describe_csv(const std::filesystem::path& file, std::int64_t limit);

bool is_picture_file(const std::filesystem::path& file);  // by its name

// Size and channels of a picture.
std::string describe_picture(const std::filesystem::path& file);

// Contents of a folder: pictures by subfolder, which image_folder takes as classes, their sizes, and other files by
// ending.
std::string describe_folder(const std::filesystem::path& folder);

}  // namespace starling::cli

#include "starling/data/formats/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "starling/base/error.h"
#include "starling/tensor/bytes.h"

namespace starling::data {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::string_view kDTypeNames[kDTypeCount] = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16",
                                                       "I8",  "U64", "U32", "U16",  "U8",  "BOOL"};
constexpr std::size_t kAlignment = 64;

std::optional<DType> parse_safetensors_dtype(std::string_view text) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kDTypeNames[i] == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

// SAX parser: anything unexpected is refused at once, before it is stored.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  HeaderReader(SafetensorsHeader& header, const std::string& file) : header_(header), file_(file) {}

  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("a boolean"); }
  bool number_integer(number_integer_t) override { refuse("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { refuse("a fraction"); }
  bool binary(binary_t&) override { refuse("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::shape) {
      check(entry_.type.shape.rank() < kMaxRank, "[safetensors] {}: expected at most {} axes, got more in '{}'", file_,
            kMaxRank, entry_.name);
      check(value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
            "[safetensors] {}: expected a size below 2^63, got {} in '{}'", file_, value, entry_.name);
      entry_.type.shape.push_back(static_cast<std::int64_t>(value));
    } else if (state_ == State::offsets && offsets_ < 2) {
      (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    } else {
      refuse("a number");
    }
    return true;
  }

  bool string(string_t& text) override {
    if (state_ == State::metadata && !key_.empty()) {
      header_.metadata[key_] = text;
    } else if (state_ == State::entry && key_ == "dtype") {
      const auto dtype = parse_safetensors_dtype(text);
      check(dtype.has_value(),
            "[safetensors] {}: expected a dtype of (F64, F32, F16, BF16, I64, I32, U8, BOOL), got '{}' for '{}'", file_,
            text.substr(0, 40), entry_.name);
      entry_.type.dtype = *dtype;
      has_dtype_ = true;
    } else {
      refuse("a string");
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (state_ == State::start) {
      state_ = State::top;
    } else if (state_ == State::top && key_ == kMetadataKey) {
      state_ = State::metadata;
      key_.clear();
    } else if (state_ == State::top) {
      check(header_.entries.size() < kSafetensorsMostTensors, "[safetensors] {}: expected at most {} tensors, got more",
            file_, kSafetensorsMostTensors);
      entry_ = {.name = key_};
      has_dtype_ = has_shape_ = false;
      offsets_ = 0;
      state_ = State::entry;
    } else {
      refuse("an object");
    }
    return true;
  }

  bool key(string_t& text) override {
    if (state_ == State::entry) {
      check(text == "dtype" || text == "shape" || text == "data_offsets",
            "[safetensors] {}: expected one of (dtype, shape, data_offsets) for '{}', got '{}'", file_, entry_.name,
            text.substr(0, 40));
    } else if (state_ == State::metadata) {
      check(!text.empty() && !header_.metadata.contains(text),
            "[safetensors] {}: expected each key of metadata once, got '{}'", file_, text.substr(0, 40));
    } else {
      check(seen_.insert(text).second, "[safetensors] {}: expected each tensor once, got '{}' again", file_, text);
    }
    key_ = text;
    return true;
  }

  bool end_object() override {
    if (state_ == State::entry) {
      check(has_dtype_ && has_shape_ && offsets_ == 2,
            "[safetensors] {}: expected dtype, shape and two data_offsets for '{}'", file_, entry_.name);
      header_.entries.push_back(std::move(entry_));
    }
    state_ = State::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ == State::entry && key_ == "shape" && !has_shape_) {
      state_ = State::shape;
      has_shape_ = true;
    } else if (state_ == State::entry && key_ == "data_offsets" && offsets_ == 0) {
      state_ = State::offsets;
    } else {
      refuse("a list");
    }
    return true;
  }

  bool end_array() override {
    state_ = State::entry;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail("[safetensors] {}: expected JSON in the header, got an error at byte {}", file_, position + 8);
  }

 private:
  enum class State { start, top, metadata, entry, shape, offsets };

  [[noreturn]] void refuse(const char* what) const {
    fail("[safetensors] {}: expected a map of tensors, got {} at '{}'", file_, what, key_.substr(0, 40));
  }

  SafetensorsHeader& header_;
  const std::string& file_;
  State state_ = State::start;
  std::string key_;
  SafetensorsEntry entry_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  int offsets_ = 0;
  std::unordered_set<std::string> seen_;
};

std::uint64_t header_length(std::span<const std::byte> file, const std::string& name) {
  check(file.size() >= 8, "[safetensors] {}: expected at least 8 bytes, got {}", name, file.size());
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  check(length <= kSafetensorsMostHeader, "[safetensors] {}: expected a header of at most {} bytes, got {}", name,
        kSafetensorsMostHeader, length);
  check(length <= file.size() - 8, "[safetensors] {}: expected a header within the {} bytes of the file, got {}", name,
        file.size(), length);
  check(length >= 2 && file[8] == std::byte{'{'}, "[safetensors] {}: expected a header that begins with '{{'", name);
  return length;
}

// Tensors must be adjacent and fill the data exactly: no overlap, no hidden bytes.
void check_extents(SafetensorsHeader& header, std::uint64_t data_bytes, const std::string& name) {
  std::stable_sort(header.entries.begin(), header.entries.end(),
                   [](const auto& a, const auto& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  std::uint64_t at = 0;
  for (const auto& entry : header.entries) {
    check(entry.begin == at && entry.end >= entry.begin && entry.end <= data_bytes,
          "[safetensors] {}: expected '{}' to begin at {} and end within {} bytes, got [{}, {}]", name, entry.name, at,
          data_bytes, entry.begin, entry.end);
    check_size(entry.type.shape, size_of(entry.type.dtype), "safetensors");
    const auto bytes = bytes_of(entry.type);
    check(bytes == entry.end - entry.begin, "[safetensors] {}: expected {} bytes for '{}' of {}, got {}", name, bytes,
          entry.name, to_string(entry.type), entry.end - entry.begin);
    at = entry.end;
  }
  check(at == data_bytes, "[safetensors] {}: expected {} bytes of data, got {}", name, at, data_bytes);
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& name) {
  const std::uint64_t length = header_length(file, name);
  SafetensorsHeader header;
  header.data_begin = 8 + length;
  const auto* json = reinterpret_cast<const char*>(file.data()) + 8;
  HeaderReader reader(header, name);
  Json::sax_parse(json, json + length, &reader);
  check_extents(header, file.size() - header.data_begin, name);
  return header;
}

std::string format_safetensors_header(SafetensorsHeader& header) {
  std::string json = "{";
  if (!header.metadata.empty()) json += fmt::format("\"{}\":{},", kMetadataKey, Json(header.metadata).dump());
  std::uint64_t at = 0;
  for (auto& entry : header.entries) {
    entry.begin = at;
    at = entry.end = at + bytes_of(entry.type);
    const std::vector<std::int64_t> dims(entry.type.shape.begin(), entry.type.shape.end());
    json += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}},", Json(entry.name).dump(),
                        kDTypeNames[static_cast<int>(entry.type.dtype)], Json(dims).dump(), entry.begin, entry.end);
  }
  if (json.back() == ',') json.pop_back();
  json += '}';
  while ((8 + json.size()) % kAlignment != 0) json += ' ';
  const std::uint64_t length = json.size();
  header.data_begin = 8 + length;
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + json;
}

}  // namespace starling::data

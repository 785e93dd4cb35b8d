#include "starling/data/records/field_decoder.h"

#include <glob.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/data/formats/csv.h"
#include "starling/data/formats/example.h"
#include "starling/data/formats/npy.h"

namespace starling::data {
namespace {

TensorType type_of(const RecordField& field) {
  using Kind = RecordField::Kind;
  TensorType type;
  check(field.shape.size() < kMaxRank, "[records] expected at most {} axes for the field '{}', got {}", kMaxRank - 1,
        field.name, field.shape.size());
  for (auto dim : field.shape) type.shape.push_back(dim);
  check_size(type.shape, 8, "records");
  type.dtype = field.kind == Kind::integers                             ? DType::i64
               : field.kind == Kind::image || field.kind == Kind::bytes ? DType::u8
                                                                        : DType::f32;
  check(field.kind != Kind::image || (type.shape.rank() == 3 && (type.shape[0] == 1 || type.shape[0] == 3)),
        "[records] expected a shape [1 or 3, height, width] for the image '{}', got {}", field.name,
        to_string(type.shape));
  return type;
}

std::vector<std::string_view> alternatives(std::string_view names) {
  std::vector<std::string_view> all;
  while (true) {
    const auto bar = names.find('|');
    all.push_back(names.substr(0, bar));
    if (bar == std::string_view::npos) return all;
    names.remove_prefix(bar + 1);
  }
}

// Decodes fields from bytes, for all record formats. `where` names shard, offset and field.
void decode_bytes(const RecordField& field, std::span<const std::byte> bytes, const std::string& where,
                  const Tensor& out) {
  if (field.kind == RecordField::Kind::image) {
    const Image image = decode_image(bytes, where, {.channels = out.size(0)});
    fit_image(image, field.fit, out.size(1), out.size(2), out.data<std::uint8_t>());
    return;
  }
  const auto expected = static_cast<std::size_t>(out.numel());
  if (bytes.size() != expected) fail("[records] {}: expected {} bytes, got {}", where, expected, bytes.size());
  std::memcpy(out.raw(), bytes.data(), bytes.size());
}

// True if a finite number became an infinity.
template <class T, class Number>
bool overflows(T value, Number given) {
  if constexpr (std::is_floating_point_v<T>) return std::isinf(value) && !std::isinf(given);
  return false;
}

// Parses numbers separated by spaces or commas.
template <class T, class Number>
void decode_text(std::span<const std::byte> bytes, const std::string& where, const Tensor& out) {
  std::string_view text = as_text(bytes);
  constexpr std::string_view kBetween = " ,\t\r\n";
  T* to = out.data<T>();
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    text.remove_prefix(std::min(text.find_first_not_of(kBetween), text.size()));
    const auto word = text.substr(0, text.find_first_of(kBetween));
    Number value{};
    if (!parse_number(word, value)) {
      fail("[records] {}: expected {} numbers as text, got '{}'", where, out.numel(), word.substr(0, 40));
    }
    to[i] = static_cast<T>(value);
    if (overflows(to[i], value)) {
      fail("[records] {}: expected numbers that {} holds, got '{}'", where, name(out.dtype()), word.substr(0, 40));
    }
    text.remove_prefix(word.size());
  }
  if (text.find_first_not_of(kBetween) != std::string_view::npos) {
    fail("[records] {}: expected {} numbers as text, got more", where, out.numel());
  }
}

class FieldDecoder : public RecordDecoder {
 public:
  explicit FieldDecoder(std::vector<RecordField> fields) : fields_(std::move(fields)) {
    check(!fields_.empty(), "[records] expected fields to decode, got none");
    for (const auto& field : fields_) types_.push_back(type_of(field));
  }
  std::vector<TensorType> fields() const final { return types_; }

 protected:
  static std::string where(const Record& record, const std::string& shard, const RecordField& field) {
    return fmt::format("{}, field '{}' of the record{} at byte {}", shard, field.name,
                       record.key.empty() ? "" : " '" + record.key + "'", record.offset);
  }
  const std::vector<RecordField>& specs() const { return fields_; }

 private:
  std::vector<RecordField> fields_;
  std::vector<TensorType> types_;
};

class WebDatasetDecoder final : public FieldDecoder {
 public:
  using FieldDecoder::FieldDecoder;

  void decode(const Record& record, const std::string& shard, std::span<const Tensor> out) const override {
    for (std::size_t f = 0; f < specs().size(); ++f) {
      const RecordField& field = specs()[f];
      const RecordPart* part = nullptr;
      for (const auto name : alternatives(field.name)) part = part != nullptr ? part : record.find(name);
      const std::string place = where(record, shard, field);
      if (part == nullptr) fail("[webdataset] {}: expected such a part, got none", place);
      switch (field.kind) {
        case RecordField::Kind::integers: decode_text<std::int64_t, std::int64_t>(part->bytes, place, out[f]); break;
        case RecordField::Kind::floats: decode_text<float, double>(part->bytes, place, out[f]); break;
        case RecordField::Kind::npy: decode_npy(part->bytes, place, out[f]); break;
        default: decode_bytes(field, part->bytes, place, out[f]);
      }
    }
  }

 private:
  static void decode_npy(std::span<const std::byte> bytes, const std::string& place, const Tensor& out) {
    const Tensor array = parse_npy(bytes, place, {.most_bytes = static_cast<std::uint64_t>(out.numel()) * 8});
    if (array.shape() != out.shape()) {
      fail("[webdataset] {}: expected an array of {}, got {}", place, to_string(out.shape()), to_string(array.type()));
    }
    dispatch(array.dtype(), [&]<class T>() {
      std::transform(array.data<T>(), array.data<T>() + array.numel(), out.data<float>(),
                     [](T value) { return static_cast<float>(value); });
    });
  }
};

class ExampleDecoder final : public FieldDecoder {
 public:
  using FieldDecoder::FieldDecoder;

  void decode(const Record& record, const std::string& shard, std::span<const Tensor> out) const override {
    const Example example = parse_example(record.parts.at(0).bytes, fmt::format("{} at byte {}", shard, record.offset));
    for (std::size_t f = 0; f < specs().size(); ++f) {
      const RecordField& field = specs()[f];
      const std::string place = where(record, shard, field);
      const ExampleFeature* feature = nullptr;
      for (const auto name : alternatives(field.name)) {
        const auto found = example.find(std::string(name));
        if (feature == nullptr && found != example.end()) feature = &found->second;
      }
      if (feature == nullptr) fail("[tfrecord] {}: expected such a feature, got none", place);
      if (field.kind == RecordField::Kind::integers) {
        copy<std::int64_t>(*feature, place, "integers", out[f]);
      } else if (field.kind == RecordField::Kind::floats) {
        copy<float>(*feature, place, "floats", out[f]);
      } else {
        const auto* texts = std::get_if<std::vector<std::string>>(feature);
        if (texts == nullptr || texts->size() != 1)
          fail("[tfrecord] {}: expected one list of bytes, got another kind", place);
        decode_bytes(field, std::as_bytes(std::span(texts->front())), place, out[f]);
      }
    }
  }

 private:
  template <class T>
  static void copy(const ExampleFeature& feature, const std::string& place, const char* what, const Tensor& out) {
    const auto* values = std::get_if<std::vector<T>>(&feature);
    const auto expected = static_cast<std::size_t>(out.numel());
    if (values == nullptr || values->size() != expected) {
      fail("[tfrecord] {}: expected {} {}, got {}", place, expected, what,
           values == nullptr ? "another kind" : std::to_string(values->size()));
    }
    std::copy(values->begin(), values->end(), out.data<T>());
  }
};

}  // namespace

std::shared_ptr<const RecordDecoder> webdataset_decoder(std::vector<RecordField> fields) {
  return std::make_shared<const WebDatasetDecoder>(std::move(fields));
}

std::shared_ptr<const RecordDecoder> example_decoder(std::vector<RecordField> fields) {
  for (const auto& field : fields) {
    check(field.kind != RecordField::Kind::npy,
          "[tfrecord] expected an image, floats, integers or bytes for '{}', got npy", field.name);
  }
  return std::make_shared<const ExampleDecoder>(std::move(fields));
}

std::vector<std::filesystem::path> expand_files(const std::vector<std::string>& patterns) {
  std::vector<std::filesystem::path> files;
  for (const auto& pattern : patterns) {
    if (std::filesystem::exists(pattern)) {  // even if its name contains wildcard characters
      files.emplace_back(pattern);
      continue;
    }
    glob_t found{};
    const int code = ::glob(pattern.c_str(), 0, nullptr, &found);  // sorted
    for (std::size_t i = 0; code == 0 && i < found.gl_pathc; ++i) files.emplace_back(found.gl_pathv[i]);
    ::globfree(&found);
    check(code == 0, "[data] expected files like {}, got none", pattern);
  }
  return files;
}

}  // namespace starling::data

#include "model/safetensors_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <numeric>
#include <utility>

#include "base/text.hpp"
#include "model/memory.hpp"

namespace troupe::model {

namespace {

// The handler of Boost.JSON's basic_parser, which refuses everything that a header must not have. A parsed tree would
// not suffice, because it silently drops repeated keys.
class header_handler {
 public:
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

  using error_code = boost::json::error_code;
  using string_view = boost::json::string_view;

  /// Why the header was refused; empty: a syntax error of the parser.
  const std::string& message() const { return message_; }

  safetensors_header take() { return std::move(header_); }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }

  bool on_object_begin(error_code& ec) {
    if (where_ == place::document) {
      where_ = place::names;
      return true;
    }
    if (where_ != place::names) return refuse_value(ec);
    where_ = is_metadata() ? place::metadata : place::tensor;
    return is_metadata() ? begin_metadata(ec) : true;
  }

  bool on_object_end(std::size_t, error_code& ec) {
    if (where_ == place::names) {
      where_ = place::document;
      return true;
    }
    const bool was_tensor = where_ == place::tensor;
    where_ = place::names;
    return was_tensor ? add_tensor(ec) : true;
  }

  bool on_array_begin(error_code& ec) {
    if (where_ == place::tensor && key_ == "shape") {
      where_ = place::shape;
      return shape_.has_value() ? refuse_twice(ec) : (shape_.emplace(), true);
    }
    if (where_ == place::tensor && key_ == "data_offsets") {
      where_ = place::offsets;
      return offsets_.has_value() ? refuse_twice(ec) : (offsets_.emplace(), true);
    }
    return refuse_value(ec);
  }

  bool on_array_end(std::size_t, error_code&) {
    where_ = place::tensor;
    return true;
  }

  bool on_key_part(string_view part, std::size_t, error_code&) {
    partial_.append(part.data(), part.size());
    return true;
  }

  bool on_key(string_view part, std::size_t, error_code&) {
    partial_.append(part.data(), part.size());
    (where_ == place::names ? name_ : key_) = std::move(partial_);
    partial_.clear();
    return true;
  }

  bool on_string_part(string_view part, std::size_t, error_code&) {
    partial_.append(part.data(), part.size());
    return true;
  }

  bool on_string(string_view part, std::size_t, error_code& ec) {
    partial_.append(part.data(), part.size());
    const std::string text = std::move(partial_);
    partial_.clear();
    if (where_ == place::metadata) return header_.metadata.emplace(key_, text).second ? true : refuse_twice(ec);
    if (where_ != place::tensor || key_ != "dtype") return refuse_value(ec);
    if (type_) return refuse_twice(ec);
    type_ = text;
    return true;
  }

  bool on_number_part(string_view, error_code&) { return true; }
  bool on_int64(std::int64_t value, string_view, error_code& ec) {
    return value < 0 ? refuse_value(ec) : add_number(static_cast<std::uint64_t>(value), ec);
  }
  bool on_uint64(std::uint64_t value, string_view, error_code& ec) { return add_number(value, ec); }
  bool on_double(double, string_view, error_code& ec) { return refuse_value(ec); }
  bool on_bool(bool, error_code& ec) { return refuse_value(ec); }
  /// Some published files have null as metadata.
  bool on_null(error_code& ec) {
    return where_ == place::names && is_metadata() ? begin_metadata(ec) : refuse_value(ec);
  }
  bool on_comment_part(string_view, error_code& ec) { return refuse_value(ec); }
  bool on_comment(string_view, error_code& ec) { return refuse_value(ec); }

 private:
  enum class place : std::uint8_t { document, names, tensor, metadata, shape, offsets };

  std::string place_text() const {
    if (where_ == place::document) return "header";
    if (where_ == place::names) return printable(name_);
    return fmt::format("{}, key {}", printable(name_), printable(key_));
  }

  bool is_metadata() const { return name_ == "__metadata__"; }

  bool begin_metadata(error_code& ec) {
    if (std::exchange(has_metadata_, true)) return refuse(ec, printable(name_) + ": given twice");
    return true;
  }

  bool refuse(error_code& ec, std::string message) {
    message_ = std::move(message);
    ec = boost::system::errc::make_error_code(boost::system::errc::invalid_argument);
    return false;
  }

  bool refuse_twice(error_code& ec) { return refuse(ec, place_text() + ": given twice"); }

  bool refuse_value(error_code& ec) {
    const char* wanted = where_ == place::document                 ? "must be an object"
                         : where_ == place::names && is_metadata() ? "must be an object of texts, or null"
                         : where_ == place::names    ? "must be an object with dtype, shape and data_offsets"
                         : where_ == place::metadata ? "must be text"
                         : where_ == place::tensor   ? "must be dtype (text), shape or data_offsets (arrays)"
                                                     : "must be whole numbers of at most 64 bits";
    return refuse(ec, fmt::format("{}: {}", place_text(), wanted));
  }

  bool add_number(std::uint64_t value, error_code& ec) {
    if (where_ != place::shape && where_ != place::offsets) return refuse_value(ec);
    (where_ == place::shape ? *shape_ : *offsets_).push_back(value);
    return true;
  }

  // Checks a tensor: all keys are present, and its bytes agree with its shape.
  bool add_tensor(error_code& ec) {
    const std::string name = printable(name_);
    if (!type_ || !shape_ || !offsets_)
      return refuse(ec, fmt::format("{}: dtype, shape or data_offsets is missing", name));
    if (offsets_->size() != 2 || (*offsets_)[0] > (*offsets_)[1])
      return refuse(ec, fmt::format("{}: data_offsets {}: must be begin and end, begin not above end", name,
                                    shape_text(*offsets_)));
    tensor_entry entry{*type_, dtype_named(*type_, name_in_file), std::move(*shape_), (*offsets_)[0], (*offsets_)[1]};
    if (auto wrong = check_size(entry)) return refuse(ec, fmt::format("{}: {}", name, *wrong));
    type_.reset();
    shape_.reset();
    offsets_.reset();
    return header_.tensors.emplace(name_, std::move(entry)).second ? true : refuse_twice(ec);
  }

  static std::optional<std::string> check_size(const tensor_entry& entry) {
    if (!entry.type) return std::nullopt;
    std::uint64_t size = size_of(*entry.type);
    bool fits = true;
    for (const std::uint64_t extent : entry.shape) fits = fits && !__builtin_mul_overflow(size, extent, &size);
    if (fits && size == entry.end - entry.begin) return std::nullopt;
    return fmt::format("{} bytes for {} {}: must be {}", entry.end - entry.begin, entry.type_text,
                       shape_text(entry.shape), fits ? fmt::format("{}", size) : "less than 2^64");
  }

  safetensors_header header_;
  std::string message_;
  place where_ = place::document;
  std::string partial_;
  std::string name_;
  std::string key_;
  bool has_metadata_ = false;
  std::optional<std::string> type_;
  std::optional<std::vector<std::uint64_t>> shape_;
  std::optional<std::vector<std::uint64_t>> offsets_;
};

// Checks that the tensors cover all bytes without gaps or overlaps.
std::optional<std::string> check_places(const safetensors_header& header, std::uint64_t data_size) {
  std::vector<const std::pair<const std::string, tensor_entry>*> in_order;
  for (const auto& named : header.tensors) in_order.push_back(&named);
  std::ranges::sort(in_order, {}, [](const auto* named) { return std::pair(named->second.begin, named->second.end); });
  std::uint64_t reached = 0;
  for (const auto* named : in_order) {
    const auto& [name, entry] = *named;
    if (entry.end > data_size)
      return fmt::format("{}: ends at byte {}: must be at most {}, the end of the file", printable(name), entry.end,
                         data_size);
    if (entry.begin != reached)
      return fmt::format("{}: begins at byte {}: must be {}, where the tensor before it ends", printable(name),
                         entry.begin, reached);
    reached = entry.end;
  }
  if (reached == data_size) return std::nullopt;
  return fmt::format("{} bytes behind the last tensor: must be none", data_size - reached);
}

}  // namespace

std::uint64_t tensor_entry::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, bounded_product);
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  return printable(fmt::format("[{}]", fmt::join(shape, ", ")));
}

result<safetensors_header> parse_safetensors_header(std::string_view json, std::uint64_t data_size) {
  boost::json::parse_options options;
  options.max_depth = 3;
  boost::json::basic_parser<header_handler> parser(options);
  boost::json::error_code ec;
  const std::size_t read = parser.write_some(false, json.data(), json.size(), ec);
  if (!parser.handler().message().empty()) return bad_input(parser.handler().message());
  if (!ec && read < json.size()) ec = boost::json::error::extra_data;
  if (ec) return bad_input("header, byte {}: {}: must be one JSON object", read, ec.message());
  auto header = parser.handler().take();
  if (auto wrong = check_places(header, data_size)) return bad_input(std::move(*wrong));
  return header;
}

}  // namespace troupe::model

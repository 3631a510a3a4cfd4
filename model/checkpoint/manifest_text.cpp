// Writes and parses manifests.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <exception>
#include <stdexcept>

#include "base/digest.hpp"
#include "base/exception_text.hpp"
#include "base/lossless_json.hpp"
#include "base/mapped.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "model/checkpoint/manifest.hpp"
#include "model/job_table.hpp"

namespace troupe::model {

namespace json = boost::json;

namespace {

constexpr std::string_view format_name = "troupe-checkpoint";
constexpr std::size_t digest_digits = 32;
constexpr std::array<std::string_view, 2> split_names = {"rows", "columns"};  // by value
/// The end of a manifest, after the digest of the text before it.
constexpr std::string_view ending = "\"\n}\n";

/// How settings store bytes that are not UTF-8, as in paths: escaped, or raw, which is not JSON but was written in the
/// past.
enum class spelling : std::uint8_t { escaped, raw };

// -- writing ------------------------------------------------------------------

/// The result reads back as the same text, whatever bytes it has.
std::string json_quoted(std::string_view text, spelling how = spelling::escaped) {
  return how == spelling::escaped ? lossless_json(json::string(text)) : json::serialize(json::string(text));
}

/// Returns a string, because JSON's numbers have no NaN and few parsers are exact.
std::string real(double value) { return fmt::format("\"{}\"", value); }

std::string real(const std::optional<double>& value) { return value ? real(*value) : "null"; }

/// Returns JSON values between brackets, one per line; `indent`: the closing bracket's indentation.
std::string lines(const std::vector<std::string>& values, std::string_view brackets, std::size_t indent) {
  if (values.empty()) return std::string(brackets);
  const std::string margin = fmt::format("\n{:{}}", "", indent);
  return fmt::format("{}{}  {}{}{}", brackets[0], margin, fmt::join(values, "," + margin + "  "), margin, brackets[1]);
}

template <class Values, class ToText>
std::string list(const Values& values, std::size_t indent, ToText to_text) {
  return lines(mapped(values, to_text), "[]", indent);
}

std::string settings_text(const std::vector<setting>& settings, spelling how) {
  const auto texts = mapped(settings, [how](const setting& one) {
    return fmt::format("{}: {}", json_quoted(one.first, how), json_quoted(one.second, how));
  });
  return lines(texts, "{}", 2);
}

std::string own_text(const own_figures& own) {
  const auto texts =
      mapped(own, [](const auto& one) { return fmt::format("{}: {}", json_quoted(one.name()), real(one.value)); });
  return fmt::format("{{{}}}", fmt::join(texts, ", "));
}

std::string figures_text(const std::optional<epoch_figures>& epoch, std::uint64_t version) {
  if (!epoch) return "null";
  const std::string added =
      version == 1 ? "" : fmt::format(R"(, "test_loss": {}, "rmse": {})", real(epoch->test_loss), real(epoch->rmse));
  const std::string own = version < 5 ? "" : fmt::format(R"(, "own": {})", own_text(epoch->own));
  return fmt::format(R"({{"loss": {}, "auc": {}, "accuracy": {}, "log_loss": {}, "calibration": {}{}{}}})",
                     real(epoch->loss), real(epoch->auc), real(epoch->accuracy), real(epoch->log_loss),
                     real(epoch->calibration), added, own);
}

std::string position_text(const run_position& position, std::uint64_t version) {
  const std::string ranks = list(position.ranks, 4, [](const rank_position& rank) {
    return fmt::format(R"({{"loss_sum": {}, "samples": {}}})", real(rank.loss_sum), rank.samples);
  });
  return lines(
      {fmt::format(R"("samples": {})", position.samples), fmt::format(R"("seconds": {})", real(position.seconds)),
       fmt::format(R"("epoch_seconds": {})", real(position.epoch_seconds)),
       fmt::format(R"("skipped_steps": {})", position.skipped_steps), fmt::format(R"("ranks": {})", ranks),
       fmt::format(R"("last_epoch": {})", figures_text(position.last_epoch, version))},
      "{}", 2);
}

std::string table_text(const saved_table& table, std::uint64_t version) {
  std::vector<std::string> parts;
  for (const table_part& part : table.parts)
    parts.push_back(fmt::format(R"({{"name": {}, "type": "{}", "columns": {}}})", json_quoted(part.name),
                                name_in_file(part.type), part.columns));
  const std::string split =
      version < 3 ? "" : fmt::format(R"(, "split": "{}")", split_names.at(static_cast<std::size_t>(table.split)));
  return fmt::format(R"({{"rows": {}, "shards": {}{}, "parts": [{}]}})", table.rows, table.shards, split,
                     fmt::join(parts, ", "));
}

std::string dense_text(const tensor_declaration& tensor) {
  return fmt::format(R"({{"name": {}, "type": "{}", "shape": [{}]}})", json_quoted(tensor.name),
                     name_in_file(tensor.type), fmt::join(tensor.shape, ", "));
}

std::string file_text(const saved_file& file) {
  return fmt::format(R"({{"name": {}, "length": {}, "digest": {}}})", json_quoted(file.name), file.length,
                     json_quoted(file.digest));
}

std::string digest_of_text(std::string_view text) {
  running_digest digest;
  digest.add(std::as_bytes(std::span(text)));
  return digest.hex();
}

// -- reading ------------------------------------------------------------------

// Like Boost.JSON, these throw if a value is missing or of another type; `parse_manifest` catches. Deviations that they
// accept (unknown or repeated keys, 4e1 for 40) are detected by writing the manifest again.

std::string text_of(const json::value& value) { return std::string(value.as_string()); }

double real_of(const json::value& value) {
  const auto number = parse_number<double>(value.as_string());
  if (!number) throw std::invalid_argument(fmt::format("{}: must be a number", printable(value.as_string())));
  return *number;
}

std::optional<double> maybe_real_of(const json::value& value) {
  if (value.is_null()) return std::nullopt;
  return real_of(value);
}

template <class T>
T whole_of(const json::value& value) {
  return value.to_number<T>();
}

dtype type_of(const json::value& value) {
  const auto type = dtype_named(std::string_view(value.as_string()), name_in_file);
  if (!type) throw std::invalid_argument(fmt::format("{}: unknown type", printable(value.as_string())));
  return *type;
}

run_position position_of(const json::object& from, std::uint64_t version) {
  run_position position;
  position.samples = whole_of<std::uint64_t>(from.at("samples"));
  position.seconds = real_of(from.at("seconds"));
  position.epoch_seconds = real_of(from.at("epoch_seconds"));
  position.skipped_steps = whole_of<std::uint64_t>(from.at("skipped_steps"));
  for (const json::value& rank : from.at("ranks").as_array())
    position.ranks.push_back({real_of(rank.at("loss_sum")), whole_of<std::uint64_t>(rank.at("samples"))});
  if (const json::value& epoch = from.at("last_epoch"); !epoch.is_null()) {
    const auto since_version_2 = [&](const char* name) {
      return version > 1 ? maybe_real_of(epoch.at(name)) : std::nullopt;
    };
    position.last_epoch = epoch_figures{real_of(epoch.at("loss")),
                                        maybe_real_of(epoch.at("auc")),
                                        maybe_real_of(epoch.at("accuracy")),
                                        maybe_real_of(epoch.at("log_loss")),
                                        maybe_real_of(epoch.at("calibration")),
                                        since_version_2("test_loss"),
                                        since_version_2("rmse")};
    if (version >= 5)
      for (const auto& [name, value] : epoch.at("own").as_object())
        position.last_epoch->own.add(std::string_view(name), maybe_real_of(value));
  }
  return position;
}

table_split split_of(const json::value& value) {
  const auto found = std::ranges::find(split_names, std::string_view(value.as_string()));
  if (found == split_names.end())
    throw std::invalid_argument(fmt::format("{}: unknown split", printable(value.as_string())));
  return static_cast<table_split>(found - split_names.begin());
}

saved_table table_of(const json::value& from, std::uint64_t version) {
  saved_table table{whole_of<std::uint64_t>(from.at("rows")), whole_of<std::uint32_t>(from.at("shards")), {}};
  for (const json::value& part : from.at("parts").as_array())
    table.parts.push_back(
        {text_of(part.at("name")), type_of(part.at("type")), whole_of<std::uint64_t>(part.at("columns"))});
  if (version >= 3) table.split = split_of(from.at("split"));
  return table;
}

tensor_declaration dense_of(const json::value& from) {
  tensor_declaration tensor{text_of(from.at("name")), type_of(from.at("type")), {}};
  for (const json::value& extent : from.at("shape").as_array()) tensor.shape.push_back(whole_of<std::uint64_t>(extent));
  return tensor;
}

checkpoint_manifest manifest_of(const json::object& from, std::uint64_t version) {
  checkpoint_manifest manifest;
  manifest.step = whole_of<std::uint64_t>(from.at("step"));
  manifest.folder = text_of(from.at("folder"));
  for (const auto& [name, value] : from.at("settings").as_object())
    manifest.settings.emplace_back(std::string(name), text_of(value));
  manifest.data_digest = text_of(from.at("data_digest"));
  if (version >= 4)
    for (const auto& [name, value] : from.at("arithmetic").as_object())
      manifest.arithmetic.emplace_back(std::string(name), text_of(value));
  manifest.position = position_of(from.at("position").as_object(), version);
  for (const json::value& table : from.at("tables").as_array()) manifest.tables.push_back(table_of(table, version));
  for (const json::value& tensor : from.at("dense").as_array()) manifest.dense.push_back(dense_of(tensor));
  for (const json::value& file : from.at("files").as_array())
    manifest.files.push_back(
        {text_of(file.at("name")), whole_of<std::uint64_t>(file.at("length")), text_of(file.at("digest"))});
  return manifest;
}

tl::unexpected<manifest_fault> torn(std::string message) {
  return tl::unexpected<manifest_fault>(manifest_fault{true, std::move(message)});
}

json::value read_json(std::string_view text, spelling how) {
  if (how == spelling::escaped) {
    auto parsed = parse_lossless_json(text);
    if (!parsed) throw std::invalid_argument(parsed.error().message);
    return std::move(*parsed);
  }
  json::parse_options options;
  options.allow_invalid_utf8 = true;
  return json::parse(text, {}, options);
}

/// Returns the text in a given version.
std::string text_in(std::uint64_t version, const checkpoint_manifest& manifest, spelling how = spelling::escaped) {
  const std::string arithmetic =
      version < 4 ? "" : fmt::format(",\n  \"arithmetic\": {}", settings_text(manifest.arithmetic, how));
  std::string text = fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"step\": {},\n  \"folder\": {},\n  \"settings\": {},\n"
      "  \"data_digest\": {}{},\n  \"position\": {},\n  \"tables\": {},\n  \"dense\": {},\n  \"files\": {},\n  "
      "\"digest\": \"",
      format_name, version, manifest.step, json_quoted(manifest.folder), settings_text(manifest.settings, how),
      json_quoted(manifest.data_digest), arithmetic, position_text(manifest.position, version),
      list(manifest.tables, 2, [version](const saved_table& table) { return table_text(table, version); }),
      list(manifest.dense, 2, dense_text), list(manifest.files, 2, file_text));
  text += digest_of_text(text);
  text += ending;
  return text;
}

/// Reads a text whose digest is correct.
tl::expected<checkpoint_manifest, manifest_fault> parse_digested(std::string_view text, spelling how) try {
  const json::value parsed = read_json(text, how);
  const json::object& object = parsed.as_object();
  if (object.at("format").as_string() != format_name)
    return torn(fmt::format("format {}: must be {}", printable(object.at("format").as_string()), format_name));
  const auto version = whole_of<std::uint64_t>(object.at("version"));
  if (version < manifest_version_min || version > manifest_version) {
    const char* advice = version > manifest_version ? "; a newer troupe wrote it, use that one" : "";
    return tl::unexpected<manifest_fault>(
        manifest_fault{false, fmt::format("version {}: this version of troupe reads {} to {}{}", version,
                                          manifest_version_min, manifest_version, advice)});
  }
  checkpoint_manifest manifest = manifest_of(object, version);
  if (auto wrong = find_contradiction(manifest)) return torn(std::move(*wrong));
  if (text_in(version, manifest, how) != text)
    return torn("troupe would write it in another way: unknown or repeated keys?");
  for (auto& [name, value] : manifest.settings) value = current_spelling(name, value);
  return manifest;
} catch (const std::exception& failure) {
  return torn(fmt::format("a value is missing or of another type: {}", printable(troupe::text_of(failure))));
}

}  // namespace

std::string to_text(const checkpoint_manifest& manifest) {
  const bool has_columns =
      std::ranges::find(manifest.tables, table_split::columns, &saved_table::split) != manifest.tables.end();
  const bool has_own = manifest.position.last_epoch && !manifest.position.last_epoch->own.empty();
  return text_in(has_own ? manifest_version : !manifest.arithmetic.empty() ? 4 : has_columns ? 3 : 2, manifest);
}

tl::expected<checkpoint_manifest, manifest_fault> parse_manifest(std::string_view text) {
  // The digest is checked before anything else. All versions end with it.
  if (text.size() > manifest_bytes_max)
    return torn(fmt::format("{} bytes: must be at most {}", text.size(), manifest_bytes_max));
  if (text.size() < digest_digits + ending.size() || !text.ends_with(ending))
    return torn(fmt::format("its end is missing ({} bytes are there)", text.size()));
  const std::string_view digested = text.substr(0, text.size() - ending.size() - digest_digits);
  const std::string_view digest = text.substr(digested.size(), digest_digits);
  if (const std::string found = digest_of_text(digested); found != digest)
    return torn(fmt::format("its bytes have changed (digest {}: must be {})", found, printable(digest)));
  auto parsed = parse_digested(text, spelling::escaped);
  if (parsed || !parsed.error().torn) return parsed;
  auto from_before = parse_digested(text, spelling::raw);
  return from_before ? from_before : parsed;
}

}  // namespace troupe::model

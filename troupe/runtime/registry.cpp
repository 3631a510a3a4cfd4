#include "troupe/runtime/registry.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>

#include "actors/common/failure.hpp"
#include "base/exception_text.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "troupe/layers.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/hosted_module.hpp"
#include "troupe/runtime/hosted_object.hpp"
#include "troupe/runtime/module_service.hpp"

namespace troupe {

namespace {

struct known_types {
  std::mutex mutex;
  std::map<std::string, detail::registered_type> by_name;
  std::map<std::type_index, std::string> names;
};

known_types& all_types() {
  static known_types* const all = [] {
    auto* made = new known_types;  // never destroyed: programs may register and run at any time
    made->by_name["linear"] = detail::described_type<nn::linear>("linear");
    made->names.emplace(typeid(nn::linear), "linear");
    return made;
  }();
  return *all;
}

/// For errors: `linear, counter`. Requires: the lock.
std::string names_of(const known_types& all) {
  std::string names;
  for (const auto& [known, what] : all.by_name) names += (names.empty() ? "" : ", ") + known;
  return names;
}

/// Returns the type's name in the user's code: `app::counter`.
std::string description_of(const std::type_index& of) {
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(of.name(), nullptr, nullptr, &failed),
                                                         &std::free);
  return text ? text.get() : of.name();
}

/// Throws `error` if there is no such type.
detail::registered_type find_type(const std::string& name) {
  known_types& all = all_types();
  const std::lock_guard lock(all.mutex);
  if (const auto found = all.by_name.find(name); found != all.by_name.end()) return found->second;
  throw error(error_kind::input,
              fmt::format("the module type {} is not registered; registered are {}", name, names_of(all)));
}

}  // namespace

void detail::register_type(const std::type_index& of, registered_type what) {
  known_types& all = all_types();
  const std::lock_guard lock(all.mutex);
  const auto known = all.names.find(of);
  if (all.by_name.contains(what.name) && (known == all.names.end() || known->second != what.name))
    throw error(error_kind::input, fmt::format("registered: another module type has the name {}", what.name));
  all.names[of] = what.name;
  all.by_name[what.name] = std::move(what);
}

const std::string& detail::type_name(const std::type_index& of) {
  known_types& all = all_types();
  const std::lock_guard lock(all.mutex);
  if (const auto known = all.names.find(of); known != all.names.end()) return known->second;
  throw error(error_kind::input,
              fmt::format("the type {} is not registered; declare a troupe::registered<...> of it at namespace scope "
                          "(registered are {})",
                          description_of(of), names_of(all)));
}

namespace runtime {

msg::arguments to_text(const std::string& type, const detail::remote_options& options) {
  const auto fields = options.fields();
  if (fields.size() != options.members())
    throw error(error_kind::input, fmt::format("{}: its options have {} members, of which fields() describes {}; "
                                               "describe each once",
                                               type, options.members(), fields.size()));
  msg::arguments texts;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto& field = fields[i];
    if (!options.fits(i)) nn::refuse_option(type, field.name, field.value, field.limit, "");
    const auto* const whole = std::get_if<std::uint64_t>(&field.value);
    if (whole != nullptr && *whole > nn::integer_max)
      nn::refuse_option(type, field.name, field.value, fmt::format("at most {}", nn::integer_max), "");
    if (!field.is_required && field.is_default) continue;
    const char letter = "bidsi"[field.value.index()];
    const auto text = [&](const auto& value) { return fmt::format("{}:{}", letter, value); };
    texts.emplace_back(field.name, std::visit(text, field.value));
  }
  return texts;
}

namespace {

/// Returns null if it is malformed.
std::optional<nn::option_value> value_of(const std::string& text) {
  const std::string value = text.size() < 2 ? std::string() : text.substr(2);
  const auto whole = parse_number<std::int64_t>(value);
  const auto number = parse_number<double>(value);
  if (text.starts_with("s:")) return value;
  if (text.starts_with("b:")) return value == "true";
  if (text.starts_with("i:") && whole) return nn::value_from(*whole);
  if (text.starts_with("d:") && number) return *number;
  return std::nullopt;
}

}  // namespace

void from_text(const std::string& type, const msg::arguments& all, detail::remote_options& to) {
  const auto fields = to.fields();
  std::vector<std::optional<nn::option_value>> given(fields.size());
  for (const auto& [name, text] : all) {
    const auto field = std::ranges::find(fields, name, &nn::detail::added_options::field::name);
    if (field == fields.end()) {
      const auto known = names_in(fields, &nn::detail::added_options::field::name);
      throw error(error_kind::input, fmt::format("{} has no option {}; it has {}", type, printable(name),
                                                 known.empty() ? "none" : alternatives(known)));
    }
    auto& value = given[static_cast<std::size_t>(field - fields.begin())];
    if (value) throw error(error_kind::input, fmt::format("{}: {} is given twice; give it once", type, name));
    value = value_of(text);
    if (!value) throw error(error_kind::input, fmt::format("{}: {} is malformed: {}", type, name, printable(text)));
  }
  // Limits may depend on other options in any position: set all first, then check.
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (given[i]) to.set(i, *given[i]);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto& field = fields[i];
    if (field.is_required && !given[i])
      throw error(error_kind::input, fmt::format("{}: {} is missing: must be {}", type, field.name, field.limit));
    if (given[i] && !to.set(i, *given[i])) nn::refuse_option(type, field.name, *given[i], field.limit, "");
  }
}

namespace {

/// Makes a module that a server hosts. Throws if the user's constructor does.
std::unique_ptr<actors::remote_module> make_hosted(const msg::instantiate& order, const detail::registered_type& type,
                                                   actors::module_host& host, module_service& service,
                                                   kernels::device& where) {
  msg::arguments texts = order.spec.args;
  hosting how{.where = &where};
  std::erase_if(texts, [&](const auto& one) {
    if (one.first == "table:") how.table = parse_number<std::uint64_t>(one.second).value_or(0);
    if (one.first == "key:") how.key = parse_number<std::uint64_t>(one.second).value_or(0);
    return one.first.ends_with(":");
  });
  const auto options = type.options();
  from_text(type.name, texts, *options);
  const code_under_way under_way(
      [&] { return open_code{.who = host.name(), .what = "the constructor of " + type.name, .is_awaited = false}; });
  auto made = options->make();
  if (auto* const module = std::get_if<0>(&made))
    return std::make_unique<hosted_module>(std::move(*module), how, service);
  return std::make_unique<hosted_object>(type.name, std::get<1>(std::move(made)), type.methods(), how, host, service);
}

}  // namespace

void register_modules() {
  actors::add_module_type("", [](const msg::instantiate&, actors::module_host& host, kernels::device&) {
    return caf::expected<std::unique_ptr<actors::remote_module>>(std::make_unique<module_service>(host));
  });
  actors::add_module_type(
      own_module_type,
      [](const msg::instantiate& order, actors::module_host& host,
         kernels::device& where) -> caf::expected<std::unique_ptr<actors::remote_module>> {
        auto* const service = dynamic_cast<module_service*>(host.find(0));
        try {
          const std::string name = order.spec.args.empty() ? "" : order.spec.args.front().second;
          return make_hosted(order, find_type(name), host, *service, where);
        } catch (const error& e) {
          return actors::make_failure(e.kind() == error_kind::input ? actors::errc::bad_input : actors::errc::exception,
                                      e.what());
        } catch (const std::bad_alloc&) {
          return error_in("the constructor of " + (order.spec.args.empty() ? "" : order.spec.args.front().second));
        } catch (const std::exception& e) {
          return actors::make_failure(actors::errc::exception, troupe::text_of(e));
        } catch (...) {
          return error_in("the constructor of " + (order.spec.args.empty() ? "" : order.spec.args.front().second));
        }
      });
}

}  // namespace runtime
}  // namespace troupe

#include "troupe/runtime/registry.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "actors/failure.hpp"
#include "base/exception_text.hpp"
#include "base/number.hpp"
#include "troupe/layers.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/hosted_module.hpp"
#include "troupe/runtime/hosted_object.hpp"
#include "troupe/runtime/server_desk.hpp"

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
    made->by_name["linear"] = {.name = "linear", .make_module = [](const arguments& given) {
                                 const auto in = given.get<std::size_t>("in_features");
                                 const auto out = given.get<std::size_t>("out_features");
                                 const auto bias = given.get<bool>("bias", true);
                                 return std::make_shared<const nn::linear>(in, out, bias);
                               }};
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

/// As the user's code names it: `app::counter`.
std::string words_of(const std::type_index& of) {
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> words(abi::__cxa_demangle(of.name(), nullptr, nullptr, &failed),
                                                          &std::free);
  return words ? words.get() : of.name();
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
                          words_of(of), names_of(all)));
}

namespace runtime {

msg::arguments to_text(const std::vector<arg>& all) {
  msg::arguments texts;
  for (const arg& one : all) {
    if (const auto* flag = std::get_if<bool>(&one.what()))
      texts.emplace_back(one.name(), *flag ? "b:true" : "b:false");
    else if (const auto* whole = std::get_if<std::int64_t>(&one.what()))
      texts.emplace_back(one.name(), fmt::format("i:{}", *whole));
    else if (const auto* number = std::get_if<double>(&one.what()))
      texts.emplace_back(one.name(), fmt::format("d:{}", *number));
    else
      texts.emplace_back(one.name(), "s:" + std::get<std::string>(one.what()));
  }
  return texts;
}

std::vector<arg> from_text(const msg::arguments& all) {
  std::vector<arg> made;
  for (const auto& [name, text] : all) {
    const std::string value = text.size() < 2 ? std::string() : text.substr(2);
    const auto whole = parse_number<std::int64_t>(value);
    const auto number = parse_number<double>(value);
    if (text.starts_with("s:"))
      made.emplace_back(name, value);
    else if (text.starts_with("b:"))
      made.emplace_back(name, value == "true");
    else if (text.starts_with("i:") && whole)
      made.emplace_back(name, *whole);
    else if (text.starts_with("d:") && number)
      made.emplace_back(name, *number);
    else
      throw error(error_kind::input, fmt::format("an argument {} that is malformed: {}", name, text));
  }
  return made;
}

std::shared_ptr<const nn::module> try_module(const std::string& type, const std::vector<arg>& given) {
  const auto known = find_type(type);
  const arguments all(type, given);
  std::shared_ptr<const nn::module> made;
  if (known.make_module)
    made = known.make_module(all);
  else
    known.make_object(all);
  all.check_all_known();
  return made;
}

namespace {

/// Makes a module that a server hosts. Throws as the user's constructor does.
std::unique_ptr<actors::remote_module> make_hosted(const msg::instantiate& order, const detail::registered_type& type,
                                                   actors::module_host& host, server_desk& desk,
                                                   kernels::device& where) {
  msg::arguments texts = order.spec.args;
  hosting how{.where = &where};
  std::erase_if(texts, [&](const auto& one) {
    if (one.first == "table:") how.table = parse_number<std::uint64_t>(one.second).value_or(0);
    if (one.first == "key:") how.key = parse_number<std::uint64_t>(one.second).value_or(0);
    return one.first.ends_with(":");
  });
  const arguments given(type.name, from_text(texts));
  const code_under_way under_way(
      [&] { return open_code{.who = host.name(), .what = "the constructor of " + type.name, .is_awaited = false}; });
  if (type.make_module) {
    auto module = type.make_module(given);
    given.check_all_known();
    return std::make_unique<hosted_module>(std::move(module), how, desk);
  }
  auto object = type.make_object(given);
  given.check_all_known();
  return std::make_unique<hosted_object>(type.name, std::move(object), type.methods(), how, host, desk);
}

}  // namespace

void register_modules() {
  actors::add_module_type("", [](const msg::instantiate&, actors::module_host& host, kernels::device&) {
    return caf::expected<std::unique_ptr<actors::remote_module>>(std::make_unique<server_desk>(host));
  });
  actors::add_module_type(
      own_module_type,
      [](const msg::instantiate& order, actors::module_host& host,
         kernels::device& where) -> caf::expected<std::unique_ptr<actors::remote_module>> {
        auto* const desk = dynamic_cast<server_desk*>(host.find(0));
        try {
          const std::string name = order.spec.args.empty() ? "" : order.spec.args.front().second;
          return make_hosted(order, find_type(name), host, *desk, where);
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

// SPDX-License-Identifier: Apache-2.0
// nlohmann's JSON, with its members compiled once, in json.cc: compiled in every source that holds a value, they would
// be a third of all generated code. Precompiled headers include this file; sources that build or read JSON include it.
#pragma once

#include <nlohmann/json.hpp>

extern template class nlohmann::basic_json<>;
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
extern template class nlohmann::detail::serializer<nlohmann::json>;
extern template class nlohmann::detail::serializer<nlohmann::ordered_json>;

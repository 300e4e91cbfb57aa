// Reads single events of a stream into a record: choices of OpenAI's API, objects of SGLang's.
//
// Functions without state, thread-safe. Only for the files that include simdjson.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>

#include "bench/bursts.h"
#include "bench/request_record.h"

namespace firesteel {

// `object[key]` when it is of that kind.
std::optional<simdjson::dom::object> ObjectAt(const simdjson::dom::object& object, const char* key);
std::optional<simdjson::dom::array> ArrayAt(const simdjson::dom::object& object, const char* key);

// Valid UTF-8 on one line, shortened.
std::string OneLine(std::string text);

// An error object is there, and not null or false.
bool HoldsError(const simdjson::dom::object& event);

void ReadUsage(const simdjson::dom::object& usage, RequestRecord* record);

// Adds one choice. False: it is not an object.
bool AddChoice(const simdjson::dom::element& element, int64_t now_ns, RequestRecord* record,
               BurstCandidate* burst);

// Adds an event of /generate. `*delta` is whether texts are increments; it is found out on the way:
// a text that does not begin with what came before, though tokens were added, is one.
void AddGenerate(const simdjson::dom::object& event, const simdjson::dom::object& meta,
                 int64_t now_ns, bool* delta, RequestRecord* record, BurstCandidate* burst);

}  // namespace firesteel

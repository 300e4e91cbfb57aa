# The one-way rule of cmake/Module.cmake fails the configuring when it is broken, with a message that names the place; and
# only then. Run as: cmake -DMODULE_CMAKE=… -DBINARY_DIR=… -DCXX=… -P check.cmake
foreach(case IN ITEMS
    "none|"
    "upward include|lower/code.cc includes upper/outward.h, but lower may include only: lower"
    "inner header|upper/code.cc includes lower/inner.h, which lower does not list as outward"
    "upward dependency|module lower depends on upper, which is not declared below it")
  string(REGEX MATCH "^([^|]*)[|](.*)$" _ "${case}")
  set(fault "${CMAKE_MATCH_1}")
  set(expected "${CMAKE_MATCH_2}")
  string(REPLACE " " "_" folder "${BINARY_DIR}/${fault}")
  file(REMOVE_RECURSE ${folder})
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${folder} "-DFAULT=${fault}"
      -DMODULE_CMAKE=${MODULE_CMAKE} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_COMPILER_WORKS=1
    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")  # messages are wrapped
  if(expected STREQUAL "")
    if(NOT code EQUAL 0)
      message(FATAL_ERROR "modules in order: configuring failed: ${output}")
    endif()
  else()
    string(FIND "${output}" "${expected}" at)
    if(code EQUAL 0 OR at EQUAL -1)
      message(FATAL_ERROR "${fault}: configuring ended with ${code}, expected a failure with \"${expected}\": ${output}")
    endif()
  endif()
  message(STATUS "as expected: ${fault}")
endforeach()

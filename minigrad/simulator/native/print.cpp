// printf of a kernel: collected during the launch and printed by Python after it, where a notebook can show it.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime.h"

namespace minigrad {

static char output[1 << 20];  // as large as a GPU's buffer
static size_t printed;
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

}  // namespace minigrad

using namespace minigrad;

MINIGRAD_EXPORT int minigrad_printf(const char* format, ...) {
    Worker& worker = *this_worker;
    char line[4096];
    worker.critical = 1;
    va_list words;
    va_start(words, format);
    int length = vsnprintf(line, sizeof line, format, words);
    va_end(words);
    size_t kept = length < 0 ? 0 : length < int(sizeof line) ? length : sizeof line - 1;
    pthread_mutex_lock(&printing);
    if (kept > sizeof output - printed) kept = sizeof output - printed;
    memcpy(output + printed, line, kept);
    printed += kept;
    pthread_mutex_unlock(&printing);
    note_progress(worker);
    leave_critical(worker);
    return length;
}

MINIGRAD_EXPORT const char* minigrad_output() { return output; }
MINIGRAD_EXPORT long long minigrad_clock() {
    note_progress(*this_worker);  // a thread that reads the clock may wait for it
    return now();
}

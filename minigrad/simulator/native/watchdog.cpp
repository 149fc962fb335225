// Stops a kernel that runs too long, and wakes the other workers for a slow one. One thread checks the clock every 10
// ms while kernels run, and sleeps after a second without any: waking it for each launch would cost more than many a
// launch.
#include <unistd.h>

#include "runtime.h"

namespace minigrad {

static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static std::atomic<uint64_t> deadline;  // 0: nothing runs
static std::atomic<bool> asleep;
static bool watched;

static void sleep_until_launch() {
    pthread_mutex_lock(&watch_lock);
    asleep = true;
    while (!deadline) pthread_cond_wait(&wake, &watch_lock);
    asleep = false;
    pthread_mutex_unlock(&watch_lock);
}

static void* watchdog_life(void*) {
    unsigned quiet = 0;
    for (;;) {
        if (++quiet > 100) sleep_until_launch();
        usleep(10000);
        uint64_t limit = deadline;
        if (!limit) continue;
        quiet = 0;
        call_helpers();
        if (now() <= limit || deadline != limit) continue;
        if (!launch.stop) launch.waiting = count_waiting();  // at a second timeout some workers have left already
        stop_all(TIMEOUT);
    }
    return nullptr;
}

static void start_watchdog(double seconds) {
    deadline = now() + uint64_t(seconds * 1e9);
    if (!watched) {
        sigset_t all, previous;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &previous);
        pthread_t thread;
        watched = pthread_create(&thread, nullptr, watchdog_life, nullptr) == 0;
        if (watched) pthread_detach(thread);
        pthread_sigmask(SIG_SETMASK, &previous, nullptr);
    }
    if (asleep) {
        pthread_mutex_lock(&watch_lock);
        pthread_cond_signal(&wake);
        pthread_mutex_unlock(&watch_lock);
    }
}

static void stop_watchdog() { deadline = 0; }

static void reset_watchdog() {
    pthread_mutex_t fresh_lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;
    watch_lock = fresh_lock, wake = fresh;
    watched = false, asleep = false;
}

}  // namespace minigrad

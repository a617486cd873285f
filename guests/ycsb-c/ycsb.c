/*
 * YCSB-T (Styx, section 9.1): accounts, and transfers between two of them; and the records of its migrations, which
 * are larger.
 *
 * The state of an account is its balance, a plain number. The Rust guest of the same workload has the same names and
 * gives the same replies.
 */
#include <string.h>
#include <styx.h>

/* The last key of a full page: with it the next begins. A page that is not full is the last. */
#define NEXT_PAGE(page, limit) ((page).count && (page).count == (limit) ? (page).items[(page).count - 1].key : NULL)

/* Whatever operator an account is of. */

static bool load(int64_t *balance) {
    if (styx_get(int64_t, balance)) return true;
    styx_abort("there is no account %s", styx_key());
    return false;
}

static bool add(int64_t amount, int64_t *balance) {
    if (!load(balance)) return false;
    if (__builtin_add_overflow(*balance, amount, balance)) return styx_abort("account %s is full", styx_key()), false;
    styx_put(int64_t, balance);
    return true;
}

/* The balance, before another account may be credited. */
static bool begin_transfer(const char *to, int64_t *balance) {
    if (strcmp(to, styx_key()) == 0) return styx_abort("a transfer needs two accounts"), false;
    return load(balance);
}

/* Takes one, once the other account has it. */
static void end_transfer(int64_t balance, int64_t *result) {
    if (balance < 1) return styx_abort("account %s has nothing left", styx_key());
    *result = balance - 1;
    styx_put(int64_t, result);
}

STYX_TUPLE(balance_page, (uint64_t, accounts), (int64_t, sum), (styx_text_or_null, next))

static balance_page sum_of(int64_t_map page, uint32_t limit) {
    balance_page sums = {.accounts = page.count, .next = NEXT_PAGE(page, limit)};
    for (size_t i = 0; i < page.count; i++) sums.sum += page.items[i].value;
    return sums;
}

STYX_OPERATOR(account, .doc = "Accounts with a balance.")

STYX_FUNCTION(account, insert, void, "Opens the account, or sets its balance.", (int64_t, balance)) {
    styx_put(int64_t, &balance);
}

STYX_READ_ONLY(account, read, int64_t, "The balance.") {
    load(result);
}

STYX_FUNCTION(account, update, int64_t, "Adds one and returns the balance.") {
    add(1, result);
}

STYX_FUNCTION(account, credit, void, "Adds one; the other half of a transfer.") {
    int64_t balance;
    add(1, &balance);
}

STYX_FUNCTION(account, transfer, int64_t,
              "Moves one to another account and returns the own balance; aborts if that would be negative.",
              (styx_text, to)) {
    int64_t balance;
    if (begin_transfer(to, &balance) && account_credit_call(to)) end_transfer(balance, result);
}

STYX_FUNCTION(account, transfer_async, int64_t,
              "The same with an asynchronous call, which runs when this function has returned.", (styx_text, to)) {
    int64_t balance;
    if (!begin_transfer(to, &balance)) return;
    account_credit_async(to);
    end_transfer(balance, result);
}

STYX_READ_ONLY(account, sum, balance_page,
               "A page of all accounts: [accounts, sum of their balances, last key of the page or null].",
               (styx_text_or_null, after), (uint32_t, limit)) {
    int64_t_map page;
    if (styx_scan(int64_t, &page, .after = after, .limit = limit)) *result = sum_of(page, limit);
}

STYX_OPERATOR(member, .key_prefix = "group", .doc = "Accounts of a group.")

STYX_FUNCTION(member, insert, void, "Opens the account, or sets its balance.", (int64_t, balance)) {
    styx_put(int64_t, &balance);
}

STYX_READ_ONLY(member, read, int64_t, "The balance.") {
    load(result);
}

STYX_FUNCTION(member, update, int64_t, "Adds one and returns the balance.") {
    add(1, result);
}

STYX_FUNCTION(member, credit, void, "Adds one; the other half of a transfer.") {
    int64_t balance;
    add(1, &balance);
}

STYX_FUNCTION(member, transfer, int64_t,
              "Moves one to another member and returns the own balance; aborts if that would be negative.",
              (styx_text, to)) {
    int64_t balance;
    if (begin_transfer(to, &balance) && member_credit_call(to)) end_transfer(balance, result);
}

STYX_READ_ONLY(member, sum, balance_page,
               "A page of the group: [accounts, sum of their balances, last key of the page or null].",
               (styx_text_or_null, after), (uint32_t, limit)) {
    const char *prefix = styx_format("%.*s:", (int)strcspn(styx_key(), ":"), styx_key());
    int64_t_map page;
    if (styx_scan(int64_t, &page, .prefix = prefix, .after = after, .limit = limit)) *result = sum_of(page, limit);
}

STYX_MAP(styx_text_list)

STYX_OPERATOR(record, .doc = "Records of fields.")

STYX_FUNCTION(record, insert, void, "Adds the record, or replaces it.", (styx_text_list, fields)) {
    styx_put(styx_text_list, &fields);
}

STYX_READ_ONLY(record, read, styx_text_list, "All fields.") {
    if (!styx_get(styx_text_list, result)) styx_abort("there is no record %s", styx_key());
}

STYX_FUNCTION(record, update, void, "Replaces a field.", (uint32_t, field), (styx_text, value)) {
    styx_text_list fields;
    if (!styx_get(styx_text_list, &fields)) return styx_abort("there is no record %s", styx_key());
    if (field >= fields.count) return styx_abort("record %s has no field %u", styx_key(), field);
    fields.items[field] = value;
    styx_put(styx_text_list, &fields);
}

STYX_TUPLE(record_page, (uint64_t, records), (uint64_t, bytes), (styx_text_or_null, next))

STYX_READ_ONLY(record, count, record_page,
               "A page of all records: [records, bytes of their fields, last key of the page or null].",
               (styx_text_or_null, after), (uint32_t, limit)) {
    styx_text_list_map page;
    if (!styx_scan(styx_text_list, &page, .after = after, .limit = limit)) return;
    *result = (record_page){.records = page.count, .next = NEXT_PAGE(page, limit)};
    for (size_t i = 0; i < page.count; i++) {
        const styx_text_list *fields = &page.items[i].value;
        for (size_t j = 0; j < fields->count; j++) result->bytes += strlen(fields->items[j]);
    }
}

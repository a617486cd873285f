/*
 * A shopping cart whose checkout is one transaction (Styx, Figure 3): stock of every item and credit of the user,
 * or nothing of it.
 *
 * An order stays as it is when it was checked out and may be checked out again, so that a benchmark never runs out
 * of orders before stock or credit does. The Rust guest of the same workload has the same names and gives the same
 * replies.
 */
#include <inttypes.h>
#include <styx.h>

/* The last key of a full page: with it the next begins. A page that is not full is the last. */
#define NEXT_PAGE(page, limit) ((page).count && (page).count == (limit) ? (page).items[(page).count - 1].key : NULL)

STYX_OPERATOR(user, .doc = "Customers and their credit, by user id.")

STYX_FUNCTION(user, insert, void, "Registers a customer, or sets the credit.", (int64_t, credit)) {
    styx_put(int64_t, &credit);
}

STYX_FUNCTION(user, pay, void, "Takes from the credit; aborts if it would become negative.", (int64_t, amount)) {
    int64_t credit;
    if (!styx_get(int64_t, &credit)) return styx_abort("there is no user %s", styx_key());
    if (credit < amount) {
        return styx_abort("user %s has a credit of %" PRId64 ", but %" PRId64 " is due", styx_key(), credit, amount);
    }
    credit -= amount;
    styx_put(int64_t, &credit);
}

STYX_TUPLE(user_audit_page, (uint64_t, users), (int64_t, credit), (styx_text_or_null, next))

STYX_READ_ONLY(user, audit, user_audit_page,
               "A page of all users: [users, sum of their credit, last key of the page or null].",
               (styx_text_or_null, after), (uint32_t, limit)) {
    int64_t_map page;
    if (!styx_scan(int64_t, &page, .after = after, .limit = limit)) return;
    *result = (user_audit_page){.users = page.count, .next = NEXT_PAGE(page, limit)};
    for (size_t i = 0; i < page.count; i++) result->credit += page.items[i].value;
}

/* An item on the shelf. */
STYX_TUPLE(shelf, (uint32_t, stock), (int64_t, price))
STYX_MAP(shelf)

STYX_OPERATOR(item, .doc = "Items in stock, by item id.")

STYX_FUNCTION(item, insert, void, "Sets how many there are and what one costs.", (uint32_t, stock), (int64_t, price)) {
    styx_put(shelf, (&(shelf){stock, price}));
}

STYX_FUNCTION(item, take, void, "Takes so many; aborts if there are not enough.", (uint32_t, quantity)) {
    shelf found;
    if (!styx_get(shelf, &found)) return styx_abort("there is no item %s", styx_key());
    if (found.stock < quantity) return styx_abort("not enough of item %s", styx_key());
    found.stock -= quantity;
    styx_put(shelf, &found);
}

STYX_TUPLE(item_audit_page, (uint64_t, items), (uint64_t, pieces), (int64_t, value), (styx_text_or_null, next))

STYX_READ_ONLY(item, audit, item_audit_page,
               "A page of all items: [items, pieces in stock, what all of them cost, last key of the page or null].",
               (styx_text_or_null, after), (uint32_t, limit)) {
    shelf_map page;
    if (!styx_scan(shelf, &page, .after = after, .limit = limit)) return;
    *result = (item_audit_page){.items = page.count, .next = NEXT_PAGE(page, limit)};
    for (size_t i = 0; i < page.count; i++) {
        const shelf *found = &page.items[i].value;
        result->pieces += found->stock;
        result->value += found->stock * found->price;
    }
}

/* Item, quantity, price of one. */
STYX_TUPLE(line, (styx_text, item), (uint32_t, quantity), (int64_t, price))
STYX_LIST(line)
/* What is in a cart, and how often it was paid. */
STYX_RECORD(cart, (styx_text, user), (line_list, lines), (uint32_t, checkouts))
STYX_MAP(cart)

static int64_t total_of(const cart *found) {
    int64_t total = 0;
    for (size_t i = 0; i < found->lines.count; i++) total += found->lines.items[i].quantity * found->lines.items[i].price;
    return total;
}

static uint64_t pieces_of(const cart *found) {
    uint64_t pieces = 0;
    for (size_t i = 0; i < found->lines.count; i++) pieces += found->lines.items[i].quantity;
    return pieces;
}

STYX_OPERATOR(order, .doc = "Carts, by order id.")

STYX_FUNCTION(order, insert, void, "Fills a cart for a user with lines [item, quantity, price of one].",
              (styx_text, user), (line_list, lines)) {
    styx_put(cart, (&(cart){user, lines, 0}));
}

STYX_FUNCTION(order, checkout, int64_t,
              "Takes every item out of stock and has the user pay: returns the price, or aborts if anything would "
              "become negative.") {
    cart found;
    if (!styx_get(cart, &found)) return styx_abort("there is no order %s", styx_key());
    for (size_t i = 0; i < found.lines.count; i++) item_take_async(found.lines.items[i].item, found.lines.items[i].quantity);
    *result = total_of(&found);
    user_pay_async(found.user, *result);
    found.checkouts++;
    styx_put(cart, &found);
}

STYX_TUPLE(order_audit_page, (uint64_t, orders), (uint64_t, checkouts), (uint64_t, pieces), (int64_t, paid),
           (styx_text_or_null, next))

STYX_READ_ONLY(order, audit, order_audit_page,
               "A page of all orders: [orders, checkouts, pieces that were bought, what was paid, last key of the page "
               "or null].",
               (styx_text_or_null, after), (uint32_t, limit)) {
    cart_map page;
    if (!styx_scan(cart, &page, .after = after, .limit = limit)) return;
    *result = (order_audit_page){.orders = page.count, .next = NEXT_PAGE(page, limit)};
    for (size_t i = 0; i < page.count; i++) {
        const cart *found = &page.items[i].value;
        result->checkouts += found->checkouts;
        result->pieces += found->checkouts * pieces_of(found);
        result->paid += found->checkouts * total_of(found);
    }
}

-- TPC-C. Each schema is an operator, each function in it one that is called: with the numbers of the key, then the
-- arguments. Money is in cents, rates are in hundredths of a percent.
--
-- What changes often has a table apart from what hardly ever does, as in the app: a new order, which reads a
-- warehouse's tax, is in no payment's way. Free space in the pages of what is updated keeps updates out of the indexes.
-- There are no foreign keys: rows are filled in any order.

create table item (
  id int primary key, name text not null, price int not null, data text not null,
  original boolean not null generated always as (data like '%ORIGINAL%') stored
);

create table warehouse (
  warehouse int primary key, name text not null, street_1 text not null, street_2 text not null,
  city text not null, state text not null, zip text not null, tax int not null
);

create table district (
  warehouse int, district int, name text not null, street_1 text not null, street_2 text not null,
  city text not null, state text not null, zip text not null, tax int not null,
  primary key (warehouse, district)
);

create table warehouse_account (warehouse int primary key, paid bigint not null) with (fillfactor = 10);

create table district_account (
  warehouse int, district int, paid bigint not null, primary key (warehouse, district)
) with (fillfactor = 10);

create table district_order (
  warehouse int, district int, next int not null, primary key (warehouse, district)
) with (fillfactor = 10);

create table stock (
  warehouse int, item int, quantity int not null, sold int not null default 0,
  orders int not null default 0, remote_orders int not null default 0,
  texts text not null check (char_length(texts) = 240), data text not null, -- 24 characters for each district
  original boolean not null generated always as (data like '%ORIGINAL%') stored,
  primary key (warehouse, item)
) with (fillfactor = 85);

create table customer (
  warehouse int, district int, customer int, first text not null, last text not null,
  phone text not null, street_1 text not null, street_2 text not null, city text not null, state text not null,
  zip text not null, since timestamptz not null, credit text not null, discount int not null,
  primary key (warehouse, district, customer)
);
create index customer_name on customer (warehouse, district, last, first, customer);

create table customer_account (
  warehouse int, district int, customer int, balance bigint not null, paid bigint not null,
  payments int not null, deliveries int not null,
  primary key (warehouse, district, customer)
) with (fillfactor = 70);

create table customer_data (
  warehouse int, district int, customer int, data text not null,
  primary key (warehouse, district, customer)
) with (fillfactor = 85);

create table history (
  warehouse int, district int, id bigint generated always as identity, -- where it was paid
  amount bigint not null, paid_at timestamptz not null, data text not null,
  primary key (warehouse, district, id)
);

create table orders (
  warehouse int, district int, number int, customer int not null, entered timestamptz not null,
  carrier int, lines int not null, all_local boolean not null,
  primary key (warehouse, district, number)
) with (fillfactor = 85);
create index orders_of_customer on orders (warehouse, district, customer, number);

create table new_order (warehouse int, district int, number int, primary key (warehouse, district, number));

create table order_line (
  warehouse int, district int, number int, line int, item int not null, supplier int not null,
  quantity int not null, amount bigint not null, delivered timestamptz, text text not null,
  primary key (warehouse, district, number, line)
) with (fillfactor = 85);

create schema item;
create schema warehouse;
create schema district;
create schema stock;
create schema customer;
create schema customer_name;
create schema history;
create schema "order";
create schema new_order;
create schema order_line;
create schema terminal;

create function micros(moment timestamptz) returns bigint language sql immutable as $$
  select (extract(epoch from moment) * 1000000)::bigint
$$;

-- What it begins with.

create function item.insert(id int, name text, price int, data text) returns void language sql as $$
  insert into item values (id, name, price, data)
$$;

create function warehouse.insert(w int, name text, address json, tax int, paid bigint) returns void language sql as $$
  insert into warehouse values
    (w, name, address->>0, address->>1, address->>2, address->>3, address->>4, tax);
  insert into warehouse_account values (w, paid)
$$;

create function district.insert(w int, d int, name text, address json, tax int, paid bigint)
returns void language sql as $$
  insert into district values
    (w, d, name, address->>0, address->>1, address->>2, address->>3, address->>4, tax);
  insert into district_account values (w, d, paid)
$$;

create function stock.fill(w int, first_item int, entries json) returns void language sql as $$
  insert into stock (warehouse, item, quantity, texts, data)
  select w, first_item + at::int - 1, (entry->>0)::int, entry->>1, entry->>2
  from json_array_elements(entries) with ordinality as entries(entry, at)
$$;

create function customer.fill(w int, d int, first_customer int, entries json) returns void language plpgsql as $$
begin
  insert into customer
  select w, d, first_customer + at::int - 1, entry->>'first', entry->>'last', entry->>'phone',
    entry->'address'->>0, entry->'address'->>1, entry->'address'->>2, entry->'address'->>3, entry->'address'->>4,
    now(), entry->>'credit', (entry->>'discount')::int
  from json_array_elements(entries) with ordinality as entries(entry, at);
  insert into customer_account
  select w, d, first_customer + at - 1, -1000, 1000, 1, 0 from generate_series(1, json_array_length(entries)) as at;
  insert into customer_data
  select w, d, first_customer + at::int - 1, entry->>'data'
  from json_array_elements(entries) with ordinality as entries(entry, at);
end $$;

-- The index of names knows them.
create function customer_name.fill(w int, d int, names json) returns void language sql as '';

create function history.fill(w int, d int, first_customer int, amount bigint, entries json)
returns void language sql as $$
  insert into history (warehouse, district, amount, paid_at, data)
  select w, d, amount, now(), entry from json_array_elements_text(entries) as entries(entry)
$$;

create function "order".start(w int, d int, number int) returns void language sql as $$
  insert into district_order values (w, d, number)
$$;

create function "order".fill(w int, d int, first_number int, entries json) returns void language sql as $$
  insert into orders
  select w, d, first_number + at::int - 1, (entry->>0)::int, now(), (entry->>1)::int, (entry->>2)::int, true
  from json_array_elements(entries) with ordinality as entries(entry, at)
$$;

create function new_order.fill(w int, d int, first_number int, last_number int) returns void language sql as $$
  insert into new_order select w, d, number from generate_series(first_number, last_number) as number
$$;

create function order_line.fill(w int, d int, first_number int, entries json, is_delivered boolean)
returns void language sql as $$
  insert into order_line
  select w, d, first_number + at::int - 1, line, (entry->>0)::int, (entry->>1)::int, (entry->>2)::int,
    (entry->>3)::bigint, case when is_delivered then now() end, entry->>4
  from json_array_elements(entries) with ordinality as entries(lines, at),
    json_array_elements(lines) with ordinality as lines(entry, line)
$$;

-- The five transactions.

-- A customer's number as the terminal is told: itself, or a last name, which means the one in the middle by first names.
create function customer_number(w int, d int, who text) returns int language plpgsql stable as $$
declare numbers int[];
begin
  if who ~ '^\d' then return who; end if;
  select array_agg(customer order by first, customer) into numbers
  from customer where warehouse = w and district = d and last = who;
  if numbers is null then raise exception 'there is no customer of the name %', who; end if;
  return numbers[(cardinality(numbers) + 1) / 2];
end $$;

-- Each three of the numbers are a line: item, supplying warehouse, quantity.
create function terminal.new_order(w int, d int, c int, numbers int[]) returns json language plpgsql as $$
declare
  line_count constant int := cardinality(numbers) / 3;
  items constant int[] := array(select numbers[3 * line - 2] from generate_series(1, line_count) as line);
  suppliers constant int[] := array(select numbers[3 * line - 1] from generate_series(1, line_count) as line);
  quantities constant int[] := array(select numbers[3 * line] from generate_series(1, line_count) as line);
  warehouse_tax int;
  district_tax int;
  own customer;
  order_number int;
  valid_count int;
  taken_count int;
  cost bigint;
  shown json;
begin
  update district_order set next = next + 1 where warehouse = w and district = d returning next - 1 into order_number;
  if not found then raise exception 'there is no district %:%', w, d; end if;
  select tax into strict warehouse_tax from warehouse where warehouse = w;
  select tax into strict district_tax from district where warehouse = w and district = d;
  select * into own from customer where warehouse = w and district = d and customer = c;
  if not found then raise exception 'there is no customer %:%:%', w, d, c; end if;
  insert into orders values (w, d, order_number, c, now(), null, line_count, w = all(suppliers));
  insert into new_order values (w, d, order_number);
  select count(*) into valid_count from item where id = any(items);
  if valid_count < line_count then raise exception 'item number is not valid'; end if;

  -- Orders that meet take their items in one order, so that none waits for one that waits for it.
  with line as (
    select * from unnest(items, suppliers, quantities) with ordinality as line(item, supplier, quantity, number)
    order by supplier, item
  ), taken as (
    -- What would run out is filled up at once.
    update stock set
      quantity = stock.quantity - line.quantity + case when stock.quantity < line.quantity + 10 then 91 else 0 end,
      sold = sold + line.quantity,
      orders = orders + 1,
      remote_orders = remote_orders + (supplier <> w)::int
    from line where stock.warehouse = supplier and stock.item = line.item
    returning number, line.item, supplier, line.quantity, stock.quantity as rest, original,
      substr(texts, 24 * d - 23, 24) as text
  ), priced as (
    select taken.*, name, price, price::bigint * quantity as amount, taken.original and item.original as is_brand
    from taken join item on item.id = taken.item
  ), entered as (
    insert into order_line
    select w, d, order_number, number, item, supplier, quantity, amount, null, text from priced
  )
  select count(*), sum(amount),
    json_agg(json_build_array(name, rest, case when is_brand then 'B' else 'G' end, price, amount) order by number)
  into taken_count, cost, shown from priced;
  if taken_count < line_count then raise exception 'there is no stock of an item'; end if;

  return json_build_object(
    'order', order_number, 'entered', micros(now()), 'last', own.last, 'credit', own.credit,
    'discount', own.discount, 'warehouse_tax', warehouse_tax, 'district_tax', district_tax,
    'total', cost * ((10000 - own.discount)::bigint * (10000 + warehouse_tax + district_tax)) / 100000000,
    'lines', shown);
end $$;

create function terminal.payment(w int, d int, home_w int, home_d int, who text, cents bigint)
returns json language plpgsql as $$
declare
  c int;
  at_warehouse warehouse;
  at_district district;
  own customer;
  new_balance bigint;
  new_data text;
begin
  update warehouse_account set paid = paid + cents where warehouse = w;
  if not found then raise exception 'there is no warehouse %', w; end if;
  update district_account set paid = paid + cents where warehouse = w and district = d;
  if not found then raise exception 'there is no district %:%', w, d; end if;
  select * into strict at_warehouse from warehouse where warehouse = w;
  select * into strict at_district from district where warehouse = w and district = d;
  c := customer_number(home_w, home_d, who);
  select * into own from customer where warehouse = home_w and district = home_d and customer = c;
  if not found then raise exception 'there is no customer %:%:%', home_w, home_d, c; end if;
  update customer_account set balance = balance - cents, paid = paid + cents, payments = payments + 1
  where warehouse = home_w and district = home_d and customer = c
  returning balance into strict new_balance;
  if own.credit <> 'GC' then
    update customer_data set data = left(format('%s %s %s %s %s %s|', c, home_d, home_w, d, w, cents) || data, 500)
    where warehouse = home_w and district = home_d and customer = c
    returning left(data, 200) into strict new_data;
  end if;
  insert into history (warehouse, district, amount, paid_at, data)
  values (w, d, cents, now(), at_warehouse.name || '    ' || at_district.name);

  return json_build_object(
    'amount', cents,
    'warehouse', json_build_array(at_warehouse.name, json_build_array(
      at_warehouse.street_1, at_warehouse.street_2, at_warehouse.city, at_warehouse.state, at_warehouse.zip)),
    'district', json_build_array(at_district.name, json_build_array(
      at_district.street_1, at_district.street_2, at_district.city, at_district.state, at_district.zip)),
    'customer', json_build_object(
      'customer', c, 'first', own.first, 'middle', 'OE', 'last', own.last, 'phone', own.phone,
      'address', json_build_array(own.street_1, own.street_2, own.city, own.state, own.zip),
      'since', micros(own.since), 'credit', own.credit, 'credit_limit', 5000000, 'discount', own.discount,
      'balance', new_balance, 'data', new_data));
end $$;

create function terminal.order_status(w int, d int, who text) returns json language plpgsql stable as $$
declare
  c constant int := customer_number(w, d, who);
  own customer;
  own_balance bigint;
  newest orders;
  shown json;
begin
  select * into own from customer where warehouse = w and district = d and customer = c;
  if not found then raise exception 'there is no customer %:%:%', w, d, c; end if;
  select balance into strict own_balance from customer_account where warehouse = w and district = d and customer = c;
  select * into newest from orders
  where warehouse = w and district = d and customer = c order by number desc limit 1;
  if found then
    select json_build_object('order', newest.number, 'entered', micros(newest.entered), 'carrier', newest.carrier,
      'lines', json_agg(json_build_array(item, supplier, quantity, amount, micros(delivered)) order by line))
    into shown from order_line where warehouse = w and district = d and number = newest.number;
  end if;
  return json_build_object('customer', c, 'first', own.first, 'middle', 'OE', 'last', own.last,
    'balance', own_balance, 'order', shown);
end $$;

create function terminal.delivery(w int, any_d int, by_carrier int) returns json language plpgsql as $$
declare
  oldest int;
  c int;
  cost bigint;
  delivered_numbers int[];
begin
  for d in 1..10 loop
    select number into oldest from new_order where warehouse = w and district = d order by number limit 1;
    if found then
      delete from new_order where warehouse = w and district = d and number = oldest;
      update orders set carrier = by_carrier
      where warehouse = w and district = d and number = oldest returning customer into strict c;
      with line as (
        update order_line set delivered = now()
        where warehouse = w and district = d and number = oldest returning amount
      )
      select sum(amount) into cost from line;
      update customer_account set balance = balance + cost, deliveries = deliveries + 1
      where warehouse = w and district = d and customer = c;
    end if;
    delivered_numbers := delivered_numbers || oldest;
  end loop;
  return to_json(delivered_numbers);
end $$;

create function terminal.stock_level(w int, d int, threshold int) returns json language plpgsql stable as $$
declare
  following int;
  low int;
begin
  select next into following from district_order where warehouse = w and district = d;
  select count(*) into low from stock
  where warehouse = w and quantity < threshold and item in (
    select item from order_line where warehouse = w and district = d and number between following - 20 and following - 1);
  return to_json(low);
end $$;

-- What the checks read. Figures of a page come with the key of its last row, or null behind the last page.

create function warehouse.audit(w int) returns json language sql stable as $$
  select json_build_array(tax, paid) from warehouse join warehouse_account using (warehouse) where warehouse = w
$$;

create function district.audit(w int, d int) returns json language sql stable as $$
  select json_build_array(tax, paid) from district join district_account using (warehouse, district)
  where warehouse = w and district = d
$$;

create function "order".next(w int, d int) returns int language sql stable as $$
  select next from district_order where warehouse = w and district = d
$$;

create function stock.audit(w int, after text, page int) returns json language sql stable as $$
  select json_build_array(count(*),
    json_build_array(coalesce(sum(quantity), 0), coalesce(sum(sold), 0), coalesce(sum(orders), 0),
      coalesce(sum(remote_orders), 0)),
    case when count(*) = page then max(item)::text end)
  from (
    select * from stock where warehouse = w and item > coalesce(after::int, 0) order by item limit page
  ) as rows
$$;

create function history.audit(w int, d int, after text, page int) returns json language sql stable as $$
  select json_build_array(count(*), coalesce(sum(amount), 0), coalesce(sum(octet_length(data)), 0),
    case when count(*) = page then max(id)::text end)
  from (
    select * from history where warehouse = w and district = d and id > coalesce(after::bigint, 0)
    order by id limit page
  ) as rows
$$;

create function customer.audit(w int, d int, after text, page int) returns json language sql stable as $$
  select json_build_array(count(*),
    json_build_array(coalesce(sum(balance), 0), coalesce(sum(paid), 0), coalesce(sum(payments), 0),
      coalesce(sum(deliveries), 0), coalesce(sum(octet_length(data)), 0)),
    case when count(*) = page then max(customer)::text end)
  from (
    select * from customer_account join customer_data using (warehouse, district, customer)
    where warehouse = w and district = d and customer > coalesce(after::int, 0) order by customer limit page
  ) as rows
$$;

create function "order".audit(w int, d int, after text, page int) returns json language sql stable as $$
  select json_build_array(count(*),
    json_build_array(coalesce(sum(lines), 0), coalesce(sum(customer), 0), coalesce(sum(carrier), 0),
      count(*) filter (where all_local)),
    json_build_array(min(number), max(number)),
    count(*) filter (where carrier is null),
    json_build_array(min(number) filter (where carrier is null), max(number) filter (where carrier is null)),
    case when count(*) = page then max(number)::text end)
  from (
    select * from orders where warehouse = w and district = d and number > coalesce(after::int, 0)
    order by number limit page
  ) as rows
$$;

create function new_order.audit(w int, d int, after text, page int) returns json language sql stable as $$
  select json_build_array(count(*), case when count(*) = page then max(number)::text end)
  from (
    select number from new_order where warehouse = w and district = d and number > coalesce(after::int, 0)
    order by number limit page
  ) as rows
$$;

create function order_line.audit(w int, d int, after text, page int) returns json language sql stable as $$
  select json_build_array(count(*),
    json_build_array(coalesce(sum(item), 0), coalesce(sum(supplier), 0), coalesce(sum(quantity), 0),
      coalesce(sum(amount), 0), count(delivered), coalesce(sum(amount) filter (where delivered is not null), 0)),
    case when count(*) = page then max(array[number, line])::text end)
  from (
    select * from order_line
    where warehouse = w and district = d
      and (number, line) > (coalesce((after::int[])[1], 0), coalesce((after::int[])[2], 0))
    order by number, line limit page
  ) as rows
$$;

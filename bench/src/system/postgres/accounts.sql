-- The accounts of YCSB-T and transfers. Each schema is an operator, each function in it one that is called.

-- Half of each page is left free, so that updates need not touch the index.
create table account (id bigint primary key, balance bigint not null) with (fillfactor = 50);

create schema account;

create function account.insert(account_id bigint, amount bigint) returns bigint language sql as $$
  insert into account values (account_id, amount)
  on conflict (id) do update set balance = excluded.balance returning balance
$$;

create function account.read(account_id bigint) returns bigint language plpgsql stable as $$
declare own bigint;
begin
  select balance into own from account where id = account_id;
  if not found then raise exception 'there is no account %', account_id; end if;
  return own;
end $$;

create function account.update(account_id bigint) returns bigint language plpgsql as $$
declare own bigint;
begin
  update account set balance = balance + 1 where id = account_id returning balance into own;
  if not found then raise exception 'there is no account %', account_id; end if;
  return own;
end $$;

create function account.transfer(from_id bigint, to_id bigint) returns bigint language plpgsql as $$
declare own bigint;
begin
  if from_id = to_id then raise exception 'a transfer needs two accounts'; end if;
  update account set balance = balance - 1 where id = from_id returning balance into own;
  if not found then raise exception 'there is no account %', from_id; end if;
  if own < 0 then raise exception 'account % has nothing left', from_id; end if;
  update account set balance = balance + 1 where id = to_id;
  if not found then raise exception 'there is no account %', to_id; end if;
  return own;
end $$;

-- Accounts and balances of one page, and its last id if it is full. Pages begin anywhere: no account is meant.
create function account.sum(any_id bigint, after bigint, page bigint) returns json language sql stable as $$
  select json_build_array(count(*), coalesce(sum(balance), 0)::bigint,
    case when count(*) = page then max(id)::text end)
  from (select id, balance from account where id > coalesce(after, -1) order by id limit page) as rows
$$;
